// Opens the dialog "Edit and run again" for the selected effect of the timeline.

import type { Step } from "./run-again.ts";
import type { TurnTimeline } from "everturn/client";
import type { ReactNode } from "react";

import { useState } from "react";

import { committedAnswer } from "../conversation/session-store.ts";
import { useConversationStore } from "../conversation/use-conversation.ts";
import { messageAt } from "../conversation/use-selection.ts";
import { placeOf } from "../selection.ts";
import { Button } from "../shell/button.tsx";
import { notify } from "../shell/toasts.tsx";
import { RunAgainDialog } from "./run-again-dialog.tsx";
import { stepsOf } from "./run-again.ts";

/** `ordinal`: a model call or a tool call of the turn. */
export function RunAgainButton({
  timeline,
  ordinal,
}: {
  readonly timeline: TurnTimeline;
  readonly ordinal: number;
}): ReactNode {
  const { state } = useConversationStore();
  const [step, setStep] = useState<Step | null>(null);
  const place = placeOf(timeline.effects, ordinal);
  if (place === null) return null;
  const open = (): void => {
    const now = state.get();
    const index = messageAt(now.messages, now.length, timeline, place);
    const message = index === null ? undefined : now.messages.get(index);
    const steps =
      index === null || message === undefined
        ? []
        : stepsOf(message, index, (callId) => committedAnswer(now, index, callId));
    const found = steps.find((other) =>
      place.type === "call" ? other.type === "call" && other.id === place.toolCallId : other.type === "model",
    );
    if (found === undefined)
      notify("The message of this step is not loaded, or not committed yet. Scroll to it first.");
    else setStep(found);
  };
  return (
    <>
      <Button onClick={open}>Edit and run again…</Button>
      {step !== null && <RunAgainDialog step={step} close={() => setStep(null)} />}
    </>
  );
}
