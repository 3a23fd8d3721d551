/* Keys: Ctrl-K palette, ? list of keys, N new chat, / to the field, Escape closes what is on top. */
import { closePopover } from "./citations.js";
import { openPalette } from "./palette.js";
import { closeSide } from "./sides.js";

const isWriting = (target) => target.closest?.("input, textarea, select, [contenteditable]") !== null;

function showKeys() {
  const dialog = document.getElementById("keys");
  if (dialog && !document.querySelector("dialog[open]")) dialog.showModal();
}

/** Close the topmost open thing; dialogs close themselves. True when something was closed. */
function closeTop() {
  if (document.querySelector("dialog[open]")) return false;
  if (closePopover()) return true;
  const menu = document.querySelector("details.menu[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
    return true;
  }
  return closeSide();
}

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.defaultPrevented) return;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      openPalette();
      return;
    }
    if (event.key === "Escape") {
      if (closeTop()) event.preventDefault();
      return;
    }
    if (isWriting(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "?") {
      event.preventDefault();
      showKeys();
    } else if (event.key === "/") {
      const field = document.querySelector("[data-write]");
      if (!field) return;
      event.preventDefault();
      field.focus();
    } else if (event.key === "n") {
      const home = document.querySelector(".rail-nav .rail-link");
      if (home) location.assign(home.href);
    }
  });
  document.addEventListener("click", (event) => {
    const act = event.target.closest("[data-act]")?.dataset.act;
    if (act === "keys") showKeys();
    else if (act === "palette") openPalette();
  });
}
