/* The look: buttons with data-set="theme|contrast|answer" choose, storage remembers, paint.js applies it early. */

export function startTheme() {
  const root = document.documentElement;
  const show = () => {
    for (const button of document.querySelectorAll("[data-set]")) {
      const chosen = root.dataset[button.dataset.set] ?? "";
      button.setAttribute("aria-pressed", String(chosen === button.dataset.value));
    }
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-set]");
    if (!button) return;
    const { set: name, value } = button.dataset;
    if (value) root.dataset[name] = value;
    else delete root.dataset[name];
    try {
      if (value) localStorage.setItem(`kaizen.${name}`, value);
      else localStorage.removeItem(`kaizen.${name}`);
    } catch {
      // Storage is forbidden: the choice lasts as long as the page.
    }
    show();
  });
  show();
}
