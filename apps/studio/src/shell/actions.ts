// Actions of the view that is shown, for the command palette. A view registers its actions while it is shown.

import { useEffect, useMemo } from "react";

import { Store, useStore } from "../data/store.ts";

/** Something that the reader can do now. */
export type Action = {
  /** Identifies the action among those of the page. */
  readonly id: string;
  readonly label: string;
  readonly run: () => void;
};

const registered = new Store<ReadonlyMap<symbol, readonly Action[]>>(new Map());

/** Registers actions while the component is shown. The list must be stable between renders (`useMemo`). */
export function useRegisterActions(actions: readonly Action[]): void {
  useEffect(() => {
    const owner = Symbol("actions");
    registered.set(new Map([...registered.get(), [owner, actions]]));
    return () => registered.set(new Map([...registered.get()].filter(([other]) => other !== owner)));
  }, [actions]);
}

/** The actions of all views that are shown. */
export function useActions(): readonly Action[] {
  const byView = useStore(registered);
  return useMemo(() => [...byView.values()].flat(), [byView]);
}
