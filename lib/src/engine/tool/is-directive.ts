// Recognises directives among the values of handlers. Loaded with the code of tool calls, unlike the constructors in directive.ts.

import type { Directive } from "./directive.ts";

import { mark } from "./directive.ts";

/** Returns whether a handler's return value is a directive. A result that merely looks like one, for example parsed JSON, is not. */
export function isDirective(value: unknown): value is Directive {
  return typeof value === "object" && value !== null && mark in value;
}
