// What a waiting call is: its tool, what the tool does, whether it is safe to run twice, and all its arguments.

import type { PendingCall } from "../data/types.ts";
import type { ToolView } from "everturn/client";
import type { JsonObject } from "everturn/model";
import type { ReactNode } from "react";

import { useMemo } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { newDraft } from "../forms/form-draft.ts";
import { SchemaForm } from "../forms/schema-fields.tsx";
import { fieldsOf, fieldsOfValue, hiddenFields } from "../forms/schema-form.ts";
import { exactName } from "../parts/text.ts";
import { formKey, useFormDraft } from "./form-drafts.ts";
import { useConversationPart } from "./use-conversation.ts";

/** The tool of a call, with its schema; `null`: the engine is not known, or has no such tool. */
export function useTool(name: string): ToolView | null {
  const { inspector } = useConnection();
  const engine = useConversationPart((state) => state.head?.engine ?? null);
  const engines = useQuery("engines", async (signal) => inspector.engines({ signal }));
  const own = engines.data?.find((other) => other.name === engine);
  return own?.tools.find((tool) => tool.name === name) ?? null;
}

/** The name of the tool that runs. */
export function CallName({ pending }: { readonly pending: PendingCall }): ReactNode {
  return <bdi>{exactName(pending.name)}</bdi>;
}

/** What a tool does, and whether it is safe to run twice, for the head of an approval. */
export function ToolNote({ pending }: { readonly pending: PendingCall }): ReactNode {
  const tool = useTool(pending.name);
  if (tool === null) return null;
  return (
    <span className="tool-note" title={tool.description}>
      <span dir="auto">{tool.description}</span>
      <b>{rerunText(tool.rerun)}</b>
    </span>
  );
}

/** All arguments of a call, to be read, and whether all of them are shown: long values are not before the reader asks for them. */
export function useCallArguments(pending: PendingCall): {
  readonly view: ReactNode;
  readonly isComplete: boolean;
} {
  const tool = useTool(pending.name);
  const sessionId = useConversationPart((state) => state.sessionId);
  const value = useMemo((): JsonObject => pending.arguments ?? {}, [pending.arguments]);
  const [draft, change] = useFormDraft(`${formKey(sessionId, pending)} read`, newDraft(value));
  const fields = useMemo(
    () => (tool === null ? null : fieldsOf(tool.inputSchema, value)) ?? fieldsOfValue(value),
    [tool, value],
  );
  const view =
    fields.length === 0 ? (
      <p className="muted">The call has no arguments.</p>
    ) : (
      <SchemaForm fields={fields} draft={draft} original={value} change={change} isReadOnly />
    );
  return { view, isComplete: hiddenFields(fields, value, draft.revealed).length === 0 };
}

/** What a crash in the middle of the call leads to. */
function rerunText(rerun: string): string {
  if (rerun === "never" || rerun === "ask") return "not safe to run twice";
  return "safe to run twice";
}
