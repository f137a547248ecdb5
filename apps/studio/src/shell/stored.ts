// Settings of the page in the browser's local storage. A browser that denies access, for example in a private window,
// keeps the defaults.

/** A stored text; `null`: there is none, or the storage cannot be read. */
export function readStored(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** Stores a text. The setting is lost at the next load if the storage cannot be written. */
export function writeStored(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // The page works without stored settings.
  }
}
