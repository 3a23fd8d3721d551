/* The palette: type to jump to a page or a conversation, or search for what was typed. Reads the rail. */
import { copyOf, word } from "./words.js";

let chosen = 0;
const dialog = () => document.getElementById("palette");
const field = () => document.getElementById("palette-input");
const list = () => document.getElementById("palette-list");

function places() {
  const found = [];
  for (const link of document.querySelectorAll(".rail-nav a[data-page]")) {
    found.push({ name: link.textContent.trim(), kind: word("page"), href: link.href });
  }
  for (const link of document.querySelectorAll(".rail-talks a.talk")) {
    found.push({ name: link.textContent.trim(), kind: word("conversation"), href: link.href });
  }
  return found;
}

const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLocaleLowerCase();

/** Places whose name holds every word typed, those that start with it first. */
function matching(typed) {
  const words = plain(typed).split(/\s+/).filter(Boolean);
  const hits = places().filter(({ name }) => words.every((part) => plain(name).includes(part)));
  const first = words.join(" ");
  hits.sort((a, b) => Number(plain(b.name).startsWith(first)) - Number(plain(a.name).startsWith(first)));
  return hits.slice(0, 12);
}

function draw() {
  const typed = field().value.trim();
  const items = matching(typed);
  if (typed) {
    const address = new URL(dialog().dataset.search, location.href);
    address.searchParams.set("q", typed);
    items.push({ name: word("search-for", { words: typed }), kind: word("search"), href: address.href });
  }
  chosen = Math.max(0, Math.min(chosen, items.length - 1));
  list().replaceChildren(...items.map((item, index) => {
    const row = copyOf("palette-item");
    row.id = `palette-${index}`;
    row.dataset.href = item.href;
    row.firstElementChild.textContent = item.name;
    row.querySelector(".kind").textContent = item.kind;
    return row;
  }));
  mark();
}

function mark() {
  [...list().children].forEach((row, index) => {
    row.setAttribute("aria-selected", String(index === chosen));
    if (index === chosen) {
      field().setAttribute("aria-activedescendant", row.id);
      row.scrollIntoView({ block: "nearest" });
    }
  });
}

function go() {
  const row = list().children[chosen];
  if (row) location.assign(row.dataset.href);
}

export function openPalette() {
  const box = dialog();
  if (!box || box.open || document.querySelector("dialog[open]")) return;
  field().value = "";
  chosen = 0;
  box.showModal();
  draw();
  field().focus();
}

export function startPalette() {
  if (!dialog()) return;
  field().addEventListener("input", () => { chosen = 0; draw(); });
  // The conversations may arrive while it is open.
  document.addEventListener("htmx:afterSettle", () => { if (dialog().open) draw(); });
  field().addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const count = list().children.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (count) chosen = (chosen + (event.key === "ArrowDown" ? 1 : count - 1)) % count;
      mark();
    } else if (event.key === "Enter") {
      event.preventDefault();
      go();
    }
  });
  list().addEventListener("click", (event) => {
    const row = event.target.closest(".palette-item");
    if (!row) return;
    chosen = [...list().children].indexOf(row);
    go();
  });
  dialog().addEventListener("click", (event) => { if (event.target === dialog()) dialog().close(); });
}
