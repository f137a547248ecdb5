// Texts that the reader has typed and not sent. They are kept for the tab, so a visit to another view and a reload lose
// nothing, and no other tab sees them. A logout removes them.

import { useCallback, useRef, useState } from "react";

const prefix = "everturn-draft ";

/** A text like that of `useState`, kept under a key that names what it belongs to. */
export function useKeptText(key: string): readonly [string, (change: (before: string) => string) => void] {
  const [text, setText] = useState(() => read(key));
  const newest = useRef(text);
  const change = useCallback(
    (next: (before: string) => string) => {
      // At once: React drops the update of a component that is removed, and the text would come back.
      newest.current = next(newest.current);
      write(key, newest.current);
      setText(newest.current);
    },
    [key],
  );
  return [text, change];
}

/** Removes all texts. */
export function forgetTexts(): void {
  for (const key of Object.keys(sessionStorage)) if (key.startsWith(prefix)) sessionStorage.removeItem(key);
}

function read(key: string): string {
  try {
    return sessionStorage.getItem(prefix + key) ?? "";
  } catch {
    return "";
  }
}

function write(key: string, text: string): void {
  try {
    if (text === "") sessionStorage.removeItem(prefix + key);
    else sessionStorage.setItem(prefix + key, text);
  } catch {
    // A storage that is full or denied: the text stays in the field.
  }
}
