// Signs an answer that the server has found to be complete: asks for the passkey at once, and on its button again. The
// signature goes with the same form. What is typed in between is another answer, which the server asks to sign again.
import { REASONS } from "../account/passkeys.js";

let asking = false;

const part = () => document.querySelector("[data-sign]:has([name=_signature])");
const buttonIn = (shown) => shown.querySelector("button");

async function sign(shown) {
  if (asking) return;
  asking = true;
  const { token, publicKey } = JSON.parse(shown.querySelector("#to-sign").textContent);
  const words = shown.querySelector("[data-sign-problem]");
  words.hidden = true;
  try {
    const options = PublicKeyCredential.parseRequestOptionsFromJSON(publicKey);
    const answer = await navigator.credentials.get({ publicKey: options });
    // Another card may have taken its place in the meantime.
    if (shown !== part()) return;
    shown.querySelector("[name=_signature]").value = JSON.stringify({ token, answer });
    document.getElementById("answer-form").requestSubmit(buttonIn(shown));
  } catch (error) {
    words.textContent = REASONS[error.name] ?? "This browser could not use a passkey.";
    words.hidden = false;
    buttonIn(shown).focus();
  } finally {
    asking = false;
  }
}

document.addEventListener("submit", (event) => {
  const shown = part();
  if (!shown || event.submitter !== buttonIn(shown) || shown.querySelector("[name=_signature]").value) return;
  event.preventDefault();
  sign(shown);
}, true);

function begin() {
  const shown = part();
  if (!shown) return document.querySelector("[data-sign] a")?.focus();
  buttonIn(shown).focus();
  sign(shown);
}

// After what the card itself points out.
document.addEventListener("card:shown", () => setTimeout(begin));
begin();
