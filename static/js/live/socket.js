// One socket that keeps its cursor: acknowledges, drops doubles, and on any hole or break reconnects from its last seq.
// Milliseconds between acknowledgements: seldom as a rule, sooner where the server may be waiting for one.
const ACK_EVERY = 1_000;
const ACK_SOON = 100;
const ACK_MANY = 100;
const KEEP_ALIVE = 25_000;
const LONGEST_WAIT = 10_000;
// The server says it is of no use to try again: bad address, signed out, not allowed, no such run.
const FINAL = new Set([4400, 4401, 4403, 4404]);

export class LiveSocket {
  // address: path; after: last seq seen, or null for a stream without a cursor;
  // on: {events(list), snapshot(seq), changed(what), stream(message), state(name, code)}
  constructor(address, after, on) {
    Object.assign(this, { address, last: after, on, failures: 0, socket: null, timer: 0, acked: after, ackedAt: 0 });
    this.beat = setInterval(() => this.ack(), KEEP_ALIVE);
    this.connect();
  }

  connect() {
    clearTimeout(this.timer);
    const url = new URL(this.address, location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    if (this.last !== null) url.searchParams.set("after", this.last);
    const socket = new WebSocket(url);
    this.socket = socket;
    this.on.state("connecting");
    socket.addEventListener("open", () => socket === this.socket && this.on.state("behind"));
    socket.addEventListener("message", (message) => socket === this.socket && this.take(JSON.parse(message.data)));
    socket.addEventListener("close", (close) => socket === this.socket && this.closed(close.code));
  }

  closed(code) {
    this.socket = null;
    if (FINAL.has(code)) {
      clearInterval(this.beat);
      this.final = true;
      return this.on.state("lost", code);
    }
    this.on.state("lost");
    const wait = Math.min(LONGEST_WAIT, 300 * 2 ** this.failures++);
    this.timer = setTimeout(() => this.connect(), wait * (0.5 + Math.random()));
  }

  // Try now: the tab came back, or the network did.
  retry() {
    if (this.socket || this.final) return;
    this.failures = 0;
    this.connect();
  }

  stop() {
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }

  breakOff() {
    this.stop();
    this.closed(0);
  }

  take(message) {
    this.failures = 0;
    if (message.type === "events") this.takeEvents(message.events);
    else if (message.type === "snapshot") this.on.snapshot((this.last = message.seq));
    else if (message.type === "changed") this.on.changed(message.what);
    else if (message.type === "stream") this.on.stream(message);
    if (!this.socket) return;
    this.on.state(message.type === "caught_up" || this.last === null ? "live" : "");
    this.ackSoon();
  }

  takeEvents(events) {
    const fresh = events.filter((event) => event.seq > this.last);
    if (!fresh.length) return;
    if (fresh[0].seq !== this.last + 1) return this.breakOff(); // a hole: ask again from the last seq that can be trusted
    this.last = fresh.at(-1).seq;
    this.on.events(fresh);
  }

  ackSoon() {
    if (this.last === null) return;
    const gap = this.last - this.acked >= ACK_MANY ? ACK_SOON : ACK_EVERY;
    const wait = this.ackedAt + gap - performance.now();
    clearTimeout(this.ackTimer);
    if (wait <= 0) this.ack();
    else this.ackTimer = setTimeout(() => this.ack(), wait);
  }

  ack() {
    clearTimeout(this.ackTimer);
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    this.acked = this.last;
    this.ackedAt = performance.now();
    this.socket.send(JSON.stringify({ ack: this.last ?? 0 }));
  }
}
