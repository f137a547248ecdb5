// What was shown in forms of calls that wait, and typed into them. It outlives the form: the list of messages removes a
// form that the reader has scrolled away from.

import type { PendingCall } from "../data/types.ts";
import type { FormDraft } from "../forms/form-draft.ts";

import { useCallback, useEffect, useState } from "react";

const maxDrafts = 100;

/** Sets a value as the newest one, and removes the oldest of too many. */
function keep<T>(values: Map<string, T>, key: string, value: T): void {
  values.delete(key);
  values.set(key, value);
  const [oldest] = values.keys();
  if (values.size > maxDrafts && oldest !== undefined) values.delete(oldest);
}

/**
 * Makes a hook like `useState` whose value is kept under a key when the component is removed. The newest values are
 * kept.
 */
function draftStore<T>() {
  const drafts = new Map<string, T>();
  return function useDraft(key: string, initial: T): readonly [T, (value: T) => void] {
    const [value, setValue] = useState(() => drafts.get(key) ?? initial);
    const change = useCallback(
      (next: T) => {
        keep(drafts, key, next);
        setValue(next);
      },
      [key],
    );
    return [value, change];
  };
}

/** The arguments of an approval. */
export const useFormDraft = draftStore<FormDraft>();

/** A text: an answer, a result. */
export const useTextDraft = draftStore<string>();

/** The reason of a denial; `null`: the reader does not deny. */
export const useReasonDraft = draftStore<{ readonly reason: string | null }>();

/**
 * Identifies what a form is about: the digest covers the call, its wait and everything that is shown. A draft of one
 * call must not appear in the form of another, and ids of calls repeat, in a session and in others.
 */
export function formKey(sessionId: string, { digest }: PendingCall): string {
  return JSON.stringify([sessionId, digest]);
}

/** The calls that forms have shown, by session and call id. */
const seenCalls = new Map<string, PendingCall>();

/**
 * What the reader has seen under the id of a call, which is another call if it has changed since: then the reader has
 * to look again. `review`: they have. `forget`: the call is decided, and the next one with its id is a new one.
 */
export function useSeenCall(
  sessionId: string,
  pending: PendingCall,
): { readonly seen: PendingCall; readonly review: () => void; readonly forget: () => void } {
  const key = JSON.stringify([sessionId, pending.id]);
  const [seen, setSeen] = useState(() => seenCalls.get(key) ?? pending);
  useEffect(() => keep(seenCalls, key, seen), [key, seen]);
  return { seen, review: () => setSeen(pending), forget: () => seenCalls.delete(key) };
}
