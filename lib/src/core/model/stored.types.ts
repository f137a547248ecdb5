// A compile-time test: this file does not compile if a stored type is not JSON. It has no run-time code.
//
// It checks two properties of every type in the table of parse.ts:
//   1. The type is assignable to `Json`: it contains no function, date, symbol or `undefined`.
//   2. No field is optional, except in `metadata` of results, `providerOptions` (message/provider-options.ts),
//      `providerTool` of tools, `prepared` and `approved` of decisions, whose presence would change effects and the
//      digests of environments in open journals, `compactAt` of requests, which earlier releases refuse to read, and
//      `addedNulls` of `message_started`, an event that adapters of programs create. An absent value is `null`, so a
//      value has one serialized form (docs/decisions/0004).

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
    : {
        [K in keyof T]-?: K extends
          | "providerOptions"
          | "providerTool"
          | "prepared"
          | "approved"
          | "addedNulls"
          | "compactAt"
          ? false
          : Partial<Pick<T, K>> extends Pick<T, K>
            ? true
            : HasOptional<T[K]>;
      }[keyof T];

/** Types that are not checked: the two with optional keys by design, and `FailureCause`, which is recursive. */
type Exempt<T> = true extends Same<T, StepMetadata> | Same<T, ChatMetadata> | Same<T, FailureCause> ? true : false;

type WithOptional = { [K in StoredType]: true extends HasOptional<StoredTypes[K]> ? K : never }[StoredType];

type None<T extends never> = T;

/** Both members are `never`. If a type violates a property, its name appears here and violates `None`'s constraint. */
export type StoredTypesAreJson = [None<NotJson>, None<WithOptional>];
