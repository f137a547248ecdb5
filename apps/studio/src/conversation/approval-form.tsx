// The form of an approval: `ApprovalForm` of `everturn/react` with fields for all arguments of the call, by the schema of
// its tool. What is typed is kept outside of the form, which leaves the document when it is scrolled out of view.
//
// Invariants: those of `ApprovalForm`; no shortcut of the page decides. A call cannot be approved while a long value is not
// shown completely, while a text cannot be read and while a value is wrong.

import type { Decision, PendingCall } from "../data/types.ts";
import type { ReactNode } from "react";

import { ApprovalForm } from "everturn/react";
import { useMemo } from "react";

import { isEdited, newDraft, obstaclesOf } from "../forms/form-draft.ts";
import { JsonForm, SchemaForm } from "../forms/schema-fields.tsx";
import { fieldsOf, fieldsOfValue, isSameJson } from "../forms/schema-form.ts";
import { formKey, useFormDraft, useReasonDraft } from "./form-drafts.ts";
import { argumentsOf, useTool } from "./waiting-call.tsx";
import { useWaitingSession } from "./waiting-session.ts";

export function SchemaApprovalForm({
  pending,
  isBlocked,
  decide,
}: {
  readonly pending: PendingCall;
  /** A decision is being sent, or the reader has not looked at the call as it is now. */
  readonly isBlocked: boolean;
  readonly decide: (decision: Decision) => void;
}): ReactNode {
  const tool = useTool(pending.shown);
  const { sessionId } = useWaitingSession();
  const original = useMemo(() => argumentsOf(pending), [pending]);
  // The server accepts no other arguments for a call of a child agent.
  const isReadOnly = pending.shown.parents.length > 0 || pending.shown.arguments === null;
  const [draft, change] = useFormDraft(formKey(sessionId, pending), newDraft(original));
  const [{ reason }, setReason] = useReasonDraft(formKey(sessionId, pending), { reason: null });
  const fields = useMemo(() => {
    const ofSchema = tool === null || tool === undefined ? null : fieldsOf(tool.inputSchema, original);
    return isReadOnly ? (ofSchema ?? fieldsOfValue(original)) : ofSchema;
  }, [tool, original, isReadOnly]);
  if (tool === undefined) {
    return (
      <p className="loading" role="status">
        Loading…
      </p>
    );
  }
  const form = {
    view:
      fields === null ? (
        <JsonForm draft={draft} original={original} change={change} />
      ) : (
        <SchemaForm fields={fields} draft={draft} original={original} change={change} isReadOnly={isReadOnly} />
      ),
    edited: isSameJson(draft.value, original) ? null : draft.value,
    obstacles: obstaclesOf(draft, fields, original),
    reset: isEdited(draft, original) ? () => change({ ...draft, value: original, unread: {} }) : null,
  };
  return (
    <div className="body">
      <ApprovalForm
        call={pending}
        decide={decide}
        disabled={isBlocked}
        form={form}
        reason={reason}
        onReason={(next) => setReason({ reason: next })}
      />
    </div>
  );
}
