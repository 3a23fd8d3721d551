/* Rail and panel as sides that slide over. While one covers the page, the rest is inert: focus can't leave it. */

const narrowRail = matchMedia("(max-width: 899px)");
const narrowPanel = matchMedia("(max-width: 1199px)");
const root = document.documentElement;
let openedBy = null;

const rail = () => document.getElementById("rail");
const panel = () => document.getElementById("panel");
const centre = () => document.querySelector(".centre");

function setInert() {
  const railCovers = root.classList.contains("rail-open") && narrowRail.matches;
  const panelCovers = root.classList.contains("panel-open") && narrowPanel.matches;
  centre().inert = railCovers || panelCovers;
  document.querySelector(".skip").inert = railCovers || panelCovers;
  if (rail()) rail().inert = panelCovers;
  panel().inert = railCovers;
  for (const button of document.querySelectorAll("[data-open=rail]")) {
    button.setAttribute("aria-expanded", String(railCovers));
  }
}

export function openRail() {
  openedBy = document.activeElement;
  root.classList.add("rail-open");
  setInert();
  rail().focus();
}

/** Show the panel with `title` and `content` (a node). */
export function openPanel({ title, content }) {
  openedBy = document.activeElement;
  document.getElementById("panel-title").textContent = title;
  document.getElementById("panel-body").replaceChildren(content);
  panel().hidden = false;
  document.getElementById("frame").classList.add("has-panel");
  root.classList.add("panel-open");
  setInert();
  panel().focus();
}

/** Close the side on top; false when none was open. */
export function closeSide() {
  const railWasOpen = root.classList.contains("rail-open");
  const panelWasOpen = root.classList.contains("panel-open");
  if (!railWasOpen && !panelWasOpen) return false;
  root.classList.remove("rail-open", "panel-open");
  if (panelWasOpen) {
    panel().hidden = true;
    document.getElementById("frame").classList.remove("has-panel");
  }
  setInert();
  if (openedBy?.isConnected) openedBy.focus();
  openedBy = null;
  return true;
}

export function startSides() {
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-open=rail]")) openRail();
    else if (event.target.closest("[data-close]")) closeSide();
    // One open menu at a time, and none after a click elsewhere.
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
  narrowRail.addEventListener("change", () => { root.classList.remove("rail-open"); setInert(); });
  narrowPanel.addEventListener("change", setInert);
  // A page kept by the browser comes back as it was left: with nothing over it.
  addEventListener("pageshow", (event) => { if (event.persisted) closeSide(); });
}
