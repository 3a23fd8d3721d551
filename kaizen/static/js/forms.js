/* Small helps for forms: filling one field from another, asking before what can't be undone, going back. */

/** Ask `question` in our own dialog; resolves to true for yes. */
function ask(question) {
  const dialog = document.getElementById("confirm");
  dialog.querySelector("[data-question]").textContent = question;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

function startPreset(select) {
  const field = document.getElementById(select.dataset.fills);
  const follow = () => {
    const known = [...select.options].find((option) => option.value === field.value.trim());
    select.value = known ? known.value : "";
  };
  if (!field.value) field.value = select.value;
  select.addEventListener("change", () => {
    if (select.value) field.value = select.value;
    else field.focus();
  });
  field.addEventListener("input", follow);
  follow();
}

export function startForms() {
  for (const select of document.querySelectorAll("select[data-fills]")) startPreset(select);
  for (const button of document.querySelectorAll("[data-act=back]")) {
    button.hidden = history.length < 2;
    button.addEventListener("click", () => history.back());
  }
  document.addEventListener("htmx:confirm", (event) => {
    if (!event.detail.question) return;
    event.preventDefault();
    ask(event.detail.question).then((yes) => { if (yes) event.detail.issueRequest(true); });
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.dataset.confirm || form.dataset.confirmed) return;
    event.preventDefault();
    ask(form.dataset.confirm).then((yes) => {
      if (!yes) return;
      form.dataset.confirmed = "1";
      form.requestSubmit();
    });
  });
  const marked = document.querySelector("[data-marked]");
  if (marked) {
    (document.getElementById("marked") ?? marked).scrollIntoView({ block: "center" });
    marked.focus({ preventScroll: true });
  }
}
