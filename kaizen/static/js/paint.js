/* Runs before the first paint, so that the chosen look is there at once. Not a module: modules wait for the page. */
(() => {
  for (const name of ["theme", "contrast", "answer"]) {
    try {
      const value = localStorage.getItem(`kaizen.${name}`);
      if (value) document.documentElement.dataset[name] = value;
    } catch {
      // Storage is forbidden: the system's own choice stands.
    }
  }
})();
