// What was typed into forms of calls that wait. It outlives the form: the list of messages removes a form that the reader has scrolled away from.

import type { PendingCall } from "../data/types.ts";
import type { FormDraft } from "../forms/form-draft.ts";

import { useCallback, useState } from "react";

const maxDrafts = 100;

/** Makes a hook like `useState` whose value is kept under a key when the component is removed. The newest values are kept. */
function draftStore<T>() {
  const drafts = new Map<string, T>();
  return function useDraft(key: string, initial: T): readonly [T, (value: T) => void] {
    const [value, setValue] = useState(() => drafts.get(key) ?? initial);
    const change = useCallback(
      (next: T) => {
        drafts.delete(key);
        drafts.set(key, next);
        const [oldest] = drafts.keys();
        if (drafts.size > maxDrafts && oldest !== undefined) drafts.delete(oldest);
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

/** Identifies what a form is about. Ids of calls repeat, in a session and in others: a draft of one call must not appear in the form of another. */
export function formKey(sessionId: string, { id, idempotencyKey, arguments: input }: PendingCall): string {
  return JSON.stringify([sessionId, id, idempotencyKey, input]);
}
