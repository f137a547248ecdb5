// Short messages at the edge of the page: an action failed, or has finished somewhere else. They are announced to
// screen readers.

import type { ReactNode } from "react";

import { Store, useStore } from "../data/store.ts";
import { IconButton } from "./button.tsx";

type Toast = { readonly id: number; readonly kind: "error" | "note"; readonly text: string };

const shownMs = { error: 9000, note: 4000 };
const maxToasts = 4;
const toasts = new Store<readonly Toast[]>([]);
let lastId = 0;

/** Shows a message for some seconds. */
export function notify(text: string, kind: Toast["kind"] = "note"): void {
  if (toasts.get().some((toast) => toast.text === text)) return;
  lastId += 1;
  const id = lastId;
  toasts.set([...toasts.get(), { id, kind, text }].slice(-maxToasts));
  setTimeout(() => dismiss(id), shownMs[kind]);
}

/** Shows why an action failed. An aborted request is not a failure. */
export function notifyError(error: unknown): void {
  if (error instanceof DOMException && error.name === "AbortError") return;
  notify(error instanceof Error ? error.message : String(error), "error");
}

/** Runs an action of the reader and shows its failure. */
export function attempt(action: () => Promise<void>): void {
  action().catch(notifyError);
}

/** Copies a text and says so. */
export function copyText(text: string): void {
  attempt(async () => {
    await navigator.clipboard.writeText(text);
    notify("Copied");
  });
}

export function Toasts(): ReactNode {
  const shown = useStore(toasts);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map(({ id, kind, text }) => (
        <div key={id} className={`toast ${kind}`}>
          <span dir="auto">{text}</span>
          <IconButton label="Dismiss" onClick={() => dismiss(id)}>
            ×
          </IconButton>
        </div>
      ))}
    </div>
  );
}

function dismiss(id: number): void {
  toasts.set(toasts.get().filter((toast) => toast.id !== id));
}
