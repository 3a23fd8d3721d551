/* Citations: hover or focus on a chip shows its passage, a click opens it in its document.
   Where there is no hover, the first tap shows the passage in a sheet with a link. */
import { word } from "./words.js";

const kept = new Map();
const canHover = matchMedia("(hover: hover)");
let popover = null;
let anchor = null;
let opening = 0;
let closing = 0;

/** Close the passage; false when none was open. Focus returns to its chip if it was inside. */
export function closePopover() {
  clearTimeout(opening);
  if (!popover) return false;
  const focusWasInside = popover.contains(document.activeElement);
  popover.remove();
  anchor.removeAttribute("aria-expanded");
  if (focusWasInside && anchor.isConnected) anchor.focus();
  popover = anchor = null;
  return true;
}

/** The passage behind a chip, as a node; never throws. Permission is the server's, asked at every opening of a page. */
async function load(href) {
  if (kept.has(href)) return kept.get(href).cloneNode(true);
  const note = document.createElement("p");
  note.className = "soft";
  try {
    const address = new URL(href, location.href);
    address.searchParams.set("fragment", "1");
    const answer = await fetch(address, { headers: { "HX-Request": "true" }, credentials: "same-origin" });
    if (answer.status === 404 || answer.status === 403) {
      note.textContent = word("passage-gone");
      return note;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = page.querySelector("[data-passage], .passage.is-marked");
    if (answer.ok && found) {
      kept.set(href, found);
      return found.cloneNode(true);
    }
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
  note.textContent = word("passage-failed");
  return note;
}

function place() {
  const box = anchor.getBoundingClientRect();
  const size = popover.getBoundingClientRect();
  const margin = 8;
  const room = document.documentElement.clientWidth - size.width - margin;
  const left = Math.max(margin, Math.min(box.left - 24, room));
  const fitsBelow = box.bottom + size.height + margin < innerHeight;
  const top = fitsBelow || box.top < size.height ? box.bottom + margin : box.top - size.height - margin;
  popover.style.left = `${left + scrollX}px`;
  popover.style.top = `${top + scrollY}px`;
}

async function open(chip) {
  if (anchor === chip) return;
  closePopover();
  anchor = chip;
  popover = document.createElement("div");
  popover.className = canHover.matches ? "popover" : "popover is-sheet";
  popover.setAttribute("role", "dialog");
  popover.setAttribute("aria-label", chip.getAttribute("aria-label") ?? "");
  popover.textContent = word("passage-loading");
  chip.setAttribute("aria-expanded", "true");
  document.body.append(popover);
  if (canHover.matches) place();
  popover.addEventListener("mouseenter", () => clearTimeout(closing));
  popover.addEventListener("mouseleave", closeSoon);
  const passage = await load(chip.href);
  if (anchor !== chip) return;
  popover.replaceChildren(passage);
  if (!canHover.matches) {
    const link = document.createElement("a");
    link.className = "button";
    link.href = chip.href;
    link.textContent = word("open-passage");
    popover.append(link);
  } else {
    place();
  }
  popover.querySelector("mark")?.scrollIntoView({ block: "nearest" });
}

function closeSoon() {
  clearTimeout(opening);
  clearTimeout(closing);
  closing = setTimeout(closePopover, 200);
}

export function startCitations() {
  const chipOf = (event) => event.target.closest?.("a.cite[href]");
  document.addEventListener("mouseover", (event) => {
    const chip = canHover.matches && chipOf(event);
    if (!chip) return;
    clearTimeout(closing);
    clearTimeout(opening);
    opening = setTimeout(open, 150, chip);
  });
  document.addEventListener("mouseout", (event) => { if (canHover.matches && chipOf(event)) closeSoon(); });
  document.addEventListener("focusin", (event) => {
    const chip = chipOf(event);
    if (chip && chip.matches(":focus-visible")) open(chip);
    else if (popover && !popover.contains(event.target) && event.target !== anchor) closePopover();
  });
  document.addEventListener("click", (event) => {
    const chip = chipOf(event);
    if (chip && !canHover.matches && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      open(chip);
    } else if (popover && !popover.contains(event.target)) {
      closePopover();
    }
  });
}
