// Constructors of failures that the kernel builds itself. The constructors of failures.ts check the details that a program or a provider gives; here there
// is a message only, and the compiler has checked the reason. The result is the same.

import type { ToolCall } from "../tool/tool.ts";
import type {
  AdapterErrorReason,
  AdapterFailure,
  RuntimeErrorReason,
  RuntimeFailure,
  ToolErrorReason,
  ToolFailure,
} from "./failure.ts";

import { emptyObject } from "../parse/json.ts";
import { adapterReasons, toolReasons } from "./failure-reasons.ts";

/** A failure of the runtime. */
export function runtimeFailureOf(reason: RuntimeErrorReason, message: string): RuntimeFailure {
  return { type: "runtime_error", reason, paths: [], message, cause: null, metadata: emptyObject };
}

/** A failure of a model call that no provider reported. */
export function adapterFailureOf(
  reason: AdapterErrorReason,
  message: string,
  code: string | null = null,
): AdapterFailure {
  return {
    type: "adapter_error",
    reason,
    message,
    cause: null,
    metadata: emptyObject,
    provider: null,
    status: null,
    retryAfterMs: null,
    requestId: null,
    ...adapterReasons[reason],
    code,
    raw: null,
  };
}

/** The failure of a tool call that the library answers. */
export function toolFailureOf(reason: ToolErrorReason, message: string, call: ToolCall): ToolFailure {
  return {
    type: "tool_error",
    reason,
    ...toolReasons[reason],
    code: reason,
    source: "runtime",
    retry: { type: "never" },
    toolName: call.name,
    toolCallId: call.id,
    raw: null,
    message,
    cause: null,
    metadata: emptyObject,
  };
}
