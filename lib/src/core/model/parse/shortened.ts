// Values without the fields that have their default, for rows that are written often: a reader of the shape fills the
// fields in (`fallback`), so nothing is lost, and most fields of most stored values have their default.
//
// `shape.ts` registers what can be left out with each shape that it builds. A shape that is written by hand has nothing
// registered, and its values stay whole.
//
// Invariants
//   1. A value of the shape is read back deeply equal from its shortened form, by this release and by every one whose
//      fields have the same defaults.
//   2. What the shape does not know stays, so a value that does not match its shape is refused when it is read.
//   3. The value is not changed. The result shares parts with it.

import { isPlainObject } from "./json.ts";

/** Returns a value without the fields that have their default, at any depth. */
export type Shorten = (value: unknown) => unknown;

/** What a shape can leave out, by shape. Without an entry: nothing. */
const shorteners = new WeakMap<object, Shorten>();

/** Returns what the values of a shape can leave out; `null`: nothing. */
export function shortenerOf(shape: object): Shorten | null {
  return shorteners.get(shape) ?? null;
}

/** Returns the shape after it has registered what its values can leave out; `null`: nothing. */
export function shortening<S extends object>(shape: S, shorten: Shorten | null): S {
  if (shorten !== null) shorteners.set(shape, shorten);
  return shape;
}

/** Returns a value of the shape without the fields that have their default, at any depth. */
export function withoutDefaults(shape: object, value: unknown): unknown {
  return shortenerOf(shape)?.(value) ?? value;
}

/** A field of an object: its shape, and its default if it has one. */
type ShortField = { readonly shape: object; readonly absent: { readonly type: string; readonly value?: unknown } };

/** Shortens objects with these fields; `null`: no field can be left out or shortened. */
export function shortenObject(fields: ReadonlyMap<string, ShortField>): Shorten | null {
  const rules = new Map<string, FieldRule>();
  for (const [name, { shape, absent }] of fields) {
    const isDefault = absent.type === "filled" ? defaultTest(absent.value) : null;
    const shorten = shortenerOf(shape);
    if (isDefault !== null || shorten !== null) rules.set(name, { isDefault, shorten });
  }
  if (rules.size === 0) return null;
  return (value) => {
    if (!isPlainObject(value)) return value;
    const short: { [name: string]: unknown } = {};
    for (const name of Object.keys(value)) {
      // No field has this name, and an assignment would set the prototype. The value is refused when it is read.
      if (name === "__proto__") return value;
      const item = value[name];
      const rule = rules.get(name);
      if (rule === undefined) short[name] = item;
      else if (rule.isDefault === null || !rule.isDefault(item)) {
        short[name] = rule.shorten === null ? item : rule.shorten(item);
      }
    }
    return short;
  };
}

/** How a field is shortened. */
type FieldRule = { readonly isDefault: ((value: unknown) => boolean) | null; readonly shorten: Shorten | null };

/** Shortens the items of arrays; `null`: items of this shape stay whole. */
export function shortenArray(item: object): Shorten | null {
  const shorten = shortenerOf(item);
  return shorten === null ? null : (value) => (Array.isArray(value) ? value.map(shorten) : value);
}

/** Shortens the members of a union by the word under `key`; `null`: all of them stay whole. */
export function shortenVariant(key: string, shapes: ReadonlyMap<string, object>): Shorten | null {
  const members = new Map<unknown, Shorten>();
  for (const [word, shape] of shapes) {
    const shorten = shortenerOf(shape);
    if (shorten !== null) members.set(word, shorten);
  }
  if (members.size === 0) return null;
  return (value) => (isPlainObject(value) ? (members.get(value[key])?.(value) ?? value) : value);
}

/** Returns a test for the default of a field. Most defaults are null, false, 0, and an empty list or object. */
function defaultTest(value: unknown): (other: unknown) => boolean {
  if (typeof value !== "object" || value === null) return (other) => other === value;
  if (Array.isArray(value) && value.length === 0) return (other) => Array.isArray(other) && other.length === 0;
  const { length } = Object.keys(value);
  return (other) => typeof other === "object" && other !== null && hasKeys(other, length) && isEqual(value, other);
}

/** Returns whether an object has so many keys. Few comparisons go further. */
function hasKeys(value: object, count: number): boolean {
  let rest = count;
  for (const _ in value) {
    if (rest === 0) return false;
    rest -= 1;
  }
  return rest === 0;
}

/** Returns whether two JSON values are equal, with the keys of objects in any order. */
function isEqual(first: unknown, second: unknown): boolean {
  if (Array.isArray(first)) {
    if (!Array.isArray(second) || first.length !== second.length) return false;
    return first.every((item, index) => isEqual(item, second[index]));
  }
  if (!isPlainObject(first)) return first === second;
  if (!isPlainObject(second)) return false;
  const keys = Object.keys(first);
  if (Object.keys(second).length !== keys.length) return false;
  return keys.every((key) => Object.hasOwn(second, key) && isEqual(first[key], second[key]));
}
