// Stops compiling when a stored type stops being JSON. There is nothing to run here: the file is the proof.
//
// Two things are shown for every type of the table in parse.ts. It is assignable to `Json`, so no function, date, symbol or
// `undefined` is in it anywhere. And no field of it is optional except in the sparse `metadata` of results, where a key is
// present only when it applies: everything else is there or is `null`, so a value has one written form.

import type { FailureCause } from "./failure/failure.ts";
import type { Json } from "./parse/json.ts";
import type { StoredType, StoredTypes } from "./parse/parse.ts";
import type { ChatMetadata, StepMetadata } from "./turn/run-results.ts";

type NotJson = { [K in StoredType]: StoredTypes[K] extends Json ? never : K }[StoredType];

type Same<Left, Right> = [Left] extends [Right] ? ([Right] extends [Left] ? true : false) : false;

type HasOptional<T> = T extends object ? (Exempt<T> extends true ? false : InObject<T>) : false;

type InObject<T extends object> = T extends readonly (infer Item)[]
  ? Json extends Item
    ? false
    : HasOptional<Item>
  : string extends keyof T
    ? false
    : { [K in keyof T]-?: Partial<Pick<T, K>> extends Pick<T, K> ? true : HasOptional<T[K]> }[keyof T];

/** Sparse on purpose; and the one type that contains itself. */
type Exempt<T> = true extends Same<T, StepMetadata> | Same<T, ChatMetadata> | Same<T, FailureCause> ? true : false;

type WithOptional = { [K in StoredType]: true extends HasOptional<StoredTypes[K]> ? K : never }[StoredType];

type None<T extends never> = T;

/** Both are `never`; naming a type here would be the compile error. */
export type StoredTypesAreJson = [None<NotJson>, None<WithOptional>];
