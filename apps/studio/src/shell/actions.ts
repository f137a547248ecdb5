// Actions of the view that is shown, for the command palette. A view registers its actions while it is shown.

import { useEffect, useSyncExternalStore } from "react";

/** Something that the reader can do now. */
export type Action = {
  /** Identifies the action among those of the page. */
  readonly id: string;
  readonly label: string;
  readonly run: () => void;
};

const listeners = new Set<() => void>();
const registered = new Map<symbol, readonly Action[]>();
let all: readonly Action[] = [];

/** Registers actions while the component is shown. The list must be stable between renders (`useMemo`). */
export function useRegisterActions(actions: readonly Action[]): void {
  useEffect(() => {
    const owner = Symbol("actions");
    registered.set(owner, actions);
    publish();
    return () => {
      registered.delete(owner);
      publish();
    };
  }, [actions]);
}

/** The actions of all views that are shown. */
export function useActions(): readonly Action[] {
  return useSyncExternalStore(
    (changed) => {
      listeners.add(changed);
      return () => listeners.delete(changed);
    },
    () => all,
  );
}

function publish(): void {
  all = [...registered.values()].flat();
  for (const changed of listeners) changed();
}
