/* The member's websocket: connects after the last event seen, notices silence, comes back with jittered back-off.
   Hands each frame on exactly once where it is numbered; what isn't numbered replaces, so a repeat does no harm. */

const SILENCE_MS = 45_000;
const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;
const FINAL = { 4401: "signed-out", 4403: "access-lost", 4404: "access-lost" };

export class Socket {
  /** onFrame(frame), onState("open" | "current" | "lost" | "signed-out" | "access-lost"). */
  constructor({ path, after, onFrame, onState }) {
    Object.assign(this, { path, onFrame, onState });
    this.after = after;
    this.failures = 0;
    this.ended = false;
    addEventListener("online", () => this.hurry());
    addEventListener("pageshow", (event) => { if (event.persisted) this.hurry(); });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.hurry(); });
    this.connect();
  }

  get isOpen() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  connect() {
    clearTimeout(this.retry);
    const address = new URL(this.path, location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    address.searchParams.set("after", String(this.after));
    address.searchParams.set("render", "html");
    const socket = new WebSocket(address);
    this.socket = socket;
    this.listen();
    socket.addEventListener("open", () => this.onState("open"));
    socket.addEventListener("message", (event) => { if (socket === this.socket) this.take(event.data); });
    socket.addEventListener("close", (event) => { if (socket === this.socket) this.closed(event.code); });
  }

  take(text) {
    this.listen();
    const frame = JSON.parse(text);
    if (frame.type === "event") {
      if (frame.seq <= this.after) return;
      this.after = frame.seq;
    } else if (frame.type === "caught_up") {
      this.after = Math.max(this.after, frame.seq);
      this.failures = 0;
      this.onState("current");
    }
    this.onFrame(frame);
  }

  /** Silence longer than a heartbeat means that the line is dead, whatever the browser believes. */
  listen() {
    clearTimeout(this.silence);
    const socket = this.socket;
    this.silence = setTimeout(() => {
      socket.close();
      if (socket === this.socket) this.closed(1006);
    }, SILENCE_MS);
  }

  closed(code) {
    clearTimeout(this.silence);
    this.socket = null;
    if (this.ended) return;
    if (FINAL[code]) {
      this.ended = true;
      this.onState(FINAL[code]);
      return;
    }
    this.onState("lost");
    const longest = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** this.failures);
    this.failures += 1;
    this.retry = setTimeout(() => this.connect(), longest * (0.5 + Math.random() / 2));
  }

  /** Try now instead of waiting: the network or the reader is back. */
  hurry() {
    if (!this.ended && !this.socket) this.connect();
  }

  /** Send `frame`; false when there is no line to send it on. */
  send(frame) {
    if (!this.isOpen) return false;
    this.socket.send(JSON.stringify(frame));
    return true;
  }
}
