// Compares the reading of a recording with the reading of what the codec decoded, field by field.

import type { Block, Reading } from "./reading.ts";
import type { Json, JsonObject } from "everturn";

import { isList, isObject } from "./reading.ts";

export type Difference = { readonly field: string; readonly expected: Json; readonly actual: Json };
export type Comparison = { readonly fields: number; readonly differences: readonly Difference[] };

type Field = readonly [name: string, expected: Json, actual: Json];

/** Compares two readings. Fields that the recording does not determine are not compared. */
export function compare(expected: Reading, actual: Reading): Comparison {
  const fields: Field[] = [["outcome", expected.outcome, actual.outcome]];
  const add = (name: string, left: Json, right: Json) => fields.push([name, left, right]);
  for (const [name, left, right] of usageFields(expected, actual)) add(name, left, right);
  add("deltas.text", expected.deltas.text, actual.deltas.text);
  add("deltas.reasoning", expected.deltas.reasoning, actual.deltas.reasoning);
  const texts = expected.deltas.arguments.filter((text) => text !== "");
  const actualTexts = actual.deltas.arguments.filter((text) => text !== "");
  add(
    "deltas.arguments",
    texts,
    actualTexts.map((text, at) => deltaValue(text, texts[at])),
  );
  if (expected.error !== null) {
    const { message, code } = expected.error;
    if (message !== null) add("error.message", message, actual.error?.message ?? null);
    if (code !== null) add("error.code", code, actual.error?.code ?? null);
  }
  if (expected.outcome === "completed") {
    for (const key of ["responseId", "model", "finishReason", "rawFinishReason", "logprobs"] as const)
      add(key, expected[key], actual[key]);
    for (const key of keysOf(expected.metadata, actual.metadata))
      add(`metadata.${key}`, expected.metadata[key] ?? null, actual.metadata[key] ?? null);
    for (const [name, left, right] of completionFields(expected, actual)) add(name, left, right);
    const count = Math.max(expected.blocks.length, actual.blocks.length);
    for (let at = 0; at < count; at += 1) {
      for (const [name, left, right] of blockFields(expected.blocks[at], actual.blocks[at]))
        add(`blocks[${at}].${name}`, left, right);
    }
  }
  const differences = fields.flatMap(([field, left, right]) =>
    isEqual(left, right) ? [] : [{ field, expected: left, actual: right }],
  );
  return { fields: fields.length, differences };
}

/**
 * The arguments of a call from its deltas. Where the API streams values, the text of the codec is compared as a value;
 * text that the codec could not continue, because the values came out of order, is not compared.
 */
function deltaValue(text: string | JsonObject, expected: string | JsonObject | undefined): Json {
  if (typeof expected !== "object" || typeof text !== "string") return text;
  try {
    const value: Json = JSON.parse(text);
    return value;
  } catch {
    return expected;
  }
}

function sorted(values: readonly Json[]): readonly Json[] {
  const texts = new Map(values.map((value) => [value, JSON.stringify(value)]));
  return values
    .filter((value) => value !== "")
    .toSorted((left, right) => ((texts.get(left) ?? "") < (texts.get(right) ?? "") ? -1 : 1));
}

function byId(values: readonly { readonly id: string }[]): readonly Json[] {
  return values.toSorted((left, right) => (left.id < right.id ? -1 : 1)).map((value): Json => ({ ...value }));
}

/** The events of complete blocks. The order is that of the stream, which may differ from the order of the blocks. */
function completionFields({ blocks }: Reading, { completions }: Reading): readonly Field[] {
  const texts = blocks.flatMap((block) => (block.type === "text" ? [block.text] : []));
  const reasoning = blocks.flatMap((block) => (block.type === "reasoning" ? [block.text] : []));
  const calls = blocks.flatMap((block) =>
    block.type === "call" || block.type === "provider_call"
      ? [{ id: block.id, name: block.name, arguments: block.arguments }]
      : [],
  );
  return [
    ["events.texts", sorted(texts), sorted(completions?.texts ?? [])],
    ["events.reasoning", sorted(reasoning), sorted(completions?.reasoning ?? [])],
    ["events.calls", byId(calls), byId(completions?.calls ?? [])],
    [
      "order of calls",
      blocks.flatMap((block) => (block.type === "call" ? [block.id] : [])),
      completions?.callIds ?? [],
    ],
  ];
}

function keysOf(left: JsonObject, right: JsonObject): readonly string[] {
  return [...new Set([...Object.keys(left), ...Object.keys(right)])];
}

function usageRows(path: string, left: JsonObject, right: JsonObject): readonly Field[] {
  return keysOf(left, right).map((key) => [`usage.${path}${key}`, left[key] ?? null, right[key] ?? null]);
}

function usageFields(expected: Reading, actual: Reading): readonly Field[] {
  if (expected.usage === null || actual.usage === null)
    return [["usage", expected.usage === null ? null : "reported", actual.usage === null ? null : "reported"]];
  const { toolUsage, extra, ...counts } = expected.usage;
  const { toolUsage: actualTools, extra: actualExtra, ...actualCounts } = actual.usage;
  return [
    ...usageRows("", counts, actualCounts),
    ...usageRows("toolUsage.", toolUsage, actualTools),
    ...usageRows("extra.", extra, actualExtra),
  ];
}

/**
 * The fields of two blocks in the same place. Of the replay data, the fields of the recording are compared; a codec may
 * add its own.
 */
function blockFields(expected: Block | undefined, actual: Block | undefined): readonly Field[] {
  if (expected === undefined || actual === undefined || expected.type !== actual.type)
    return [["type", labelOf(expected), labelOf(actual)]];
  const left: JsonObject = expected;
  const right: JsonObject = actual;
  const fields = Object.keys(left).flatMap((key): readonly Field[] => {
    const value = left[key] ?? null;
    const other = right[key] ?? null;
    if (key === "replay" && isObject(value))
      return Object.entries(value).map(([name, item]) => [
        `replay.${name}`,
        item,
        isObject(other) ? (other[name] ?? null) : null,
      ]);
    // An API that sends an object has no text of the arguments.
    return key === "argumentsText" && value === null ? [] : [[key, value, other]];
  });
  return fields;
}

/** A block in a message about a missing or different block. */
function labelOf(block: Block | undefined): Json {
  if (block === undefined) return null;
  return "text" in block ? { type: block.type, text: block.text.slice(0, 60) } : { type: block.type };
}

/** Compares JSON values; the order of keys does not count. */
export function isEqual(left: Json, right: Json): boolean {
  if (left === right) return true;
  if (isList(left) && isList(right))
    return left.length === right.length && left.every((item, at) => isEqual(item, right[at] ?? null));
  if (!isObject(left) || !isObject(right)) return false;
  const keys = Object.keys(left);
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && isEqual(left[key] ?? null, right[key] ?? null))
  );
}

/** A difference as text: the first place where the values differ, with what surrounds it. */
export function describe({ field, expected, actual }: Difference): string {
  const [left, right] = [JSON.stringify(expected), JSON.stringify(actual)];
  let at = 0;
  while (at < left.length && left[at] === right[at]) at += 1;
  const from = Math.max(0, at - 40);
  const excerpt = (text: string) =>
    `${from === 0 ? "" : "…"}${text.slice(from, from + 160)}${text.length > from + 160 ? "…" : ""}`;
  return `${field}: recorded ${excerpt(left)}, decoded ${excerpt(right)}`;
}
