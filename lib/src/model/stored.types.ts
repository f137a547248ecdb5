// Stops compiling when a stored type stops being JSON. There is nothing to run here: the file is the proof.
//
// Two things are shown for every type of the table in parse.ts. It is assignable to `Json`, so no function, date, symbol or
// `undefined` is in it anywhere. And no field of it is optional except in the sparse `metadata` of results, where a key is
// present only when it applies: everything else is there or is `null`, so a value has one written form.

import type { FailureCause } from "./failure.ts";
import type { Json } from "./json.ts";
import type { StoredType, StoredTypes } from "./parse.ts";
import type { ChatMetadata, StepMetadata } from "./results.ts";

type NotJson = { [K in StoredType]: StoredTypes[K] extends Json ? never : K }[StoredType];

type HasOptional<T> = T extends StepMetadata | ChatMetadata | FailureCause
  ? false
  : T extends readonly (infer Item)[]
    ? Json extends Item
      ? false
      : HasOptional<Item>
    : T extends object
      ? string extends keyof T
        ? false
        : { [K in keyof T]-?: Partial<Pick<T, K>> extends Pick<T, K> ? true : HasOptional<T[K]> }[keyof T]
      : false;

type WithOptional = { [K in StoredType]: true extends HasOptional<StoredTypes[K]> ? K : never }[StoredType];

type None<T extends never> = T;

/** Both are `never`; naming a type here would be the compile error. */
export type StoredTypesAreJson = [None<NotJson>, None<WithOptional>];
