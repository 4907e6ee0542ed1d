// What a card's evidence can do beyond what the page itself does.
import "./files.js";
import "./line-comments.js";
import "./tables.js";
import "./tree.js";
import "./zoom.js";
