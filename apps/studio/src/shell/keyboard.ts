// Keyboard shortcuts of the page. A shortcut of one key does nothing while the focus is in a field, in a dialog or in a
// menu.
//
// No shortcut of one key changes a session: none decides about a call, stops a turn, forks or deletes, and none opens a
// dialog whose focused button does. Text that is typed while the focus is not where the reader believes must have no
// effect.

import { useEffect, useRef } from "react";

/** Functions by key (`j`, `ArrowLeft`, `?`). A function that returns `false` leaves the key to the browser. */
export type Shortcuts = { readonly [key: string]: () => void | boolean };

/** Whether key presses on an element are text or belong to a widget, so that shortcuts must not take them. */
function takesKeys(target: EventTarget | null): boolean {
  if (!(target instanceof Element)) return false;
  return (
    target.closest(
      "input, textarea, select, [contenteditable='true'], [role='dialog'], [role='alertdialog'], [role='menu'], [role='listbox']",
    ) !== null
  );
}

/** Registers shortcuts while the component is shown. */
export function useShortcuts(shortcuts: Shortcuts): void {
  const newest = useRef(shortcuts);
  newest.current = shortcuts;
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || takesKeys(event.target)) return;
      const run = Object.hasOwn(newest.current, event.key) ? newest.current[event.key] : undefined;
      if (run === undefined || run() === false) return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

const isApple = /Mac|iPhone|iPad/.test(navigator.userAgent);

/** The name of a shortcut with the modifier of the platform: `⌘K` or `Ctrl K`. */
export function withModifier(key: string): string {
  return isApple ? `⌘${key}` : `Ctrl ${key}`;
}
