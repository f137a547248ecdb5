// What the reader has changed in a form. Pure.

import type { Field, FieldPath } from "./schema-form.ts";
import type { Json, JsonObject } from "everturn";

import { exactName } from "../parts/text.ts";
import { fieldValue, hiddenFields, isSameJson, pathKey, problemOf } from "./schema-form.ts";

/** The state of a form. Fields are identified by {@link pathKey}. */
export type FormDraft = {
  /** The value that the readable texts of all fields have. */
  readonly value: JsonObject;
  /** Texts that are not JSON, by field. Their fields keep the last value in `value`, which must not be sent. */
  readonly unread: { readonly [key: string]: string };
  /** The fields whose long texts the reader has asked for. */
  readonly revealed: readonly string[];
  /** The fields with invisible characters that the reader edits. */
  readonly editing: readonly string[];
};

/** The form before any change. */
export function newDraft(value: JsonObject): FormDraft {
  return { value, unread: {}, revealed: [], editing: [] };
}

/** Sets the text of a field that cannot be read; `null`: the text can be read. */
export function withUnread(draft: FormDraft, path: FieldPath, text: string | null): FormDraft {
  const key = pathKey(path);
  const { [key]: _, ...others } = draft.unread;
  return { ...draft, unread: text === null ? others : { ...others, [key]: text } };
}

export function isEdited({ value, unread }: FormDraft, original: JsonObject): boolean {
  return Object.keys(unread).length > 0 || !isSameJson(value, original);
}

/**
 * Why the form cannot be sent, one sentence for each field; empty: it can. `fields`: `null` for a form with one field
 * for the whole value.
 */
export function obstaclesOf(
  { value, unread, revealed }: FormDraft,
  fields: readonly Field[] | null,
  original: JsonObject,
): readonly string[] {
  return [
    ...Object.keys(unread).map((key) => `The text of ${nameOfKey(key)} is not JSON.`),
    ...(fields ?? []).flatMap((field) => {
      const problem = problemOf(field, fieldValue(value, field.name));
      return problem === null ? [] : [`${exactName(field.name)} ${problem}.`];
    }),
    ...hiddenFields(fields, original, revealed).map((path) => `Not all of ${fieldName(path)} is shown.`),
  ];
}

/** The name of a field for the reader: `order.payTo`. */
function fieldName(path: FieldPath): string {
  return path.length === 0 ? "the arguments" : path.map(exactName).join(".");
}

function nameOfKey(key: string): string {
  const path: Json = JSON.parse(key);
  return Array.isArray(path) ? fieldName(path.map(String)) : key;
}
