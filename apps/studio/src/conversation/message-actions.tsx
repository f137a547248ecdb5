// The actions on one message: edit and run again, fork from here, copy a link, copy as JSON. The menu is created when it is first opened: a
// menu for each visible message would make scrolling slow.

import type { Step } from "../again/run-again.ts";
import type { Message } from "everturn";
import type { ReactNode } from "react";

import { useState } from "react";

import { RunAgainDialog } from "../again/run-again-dialog.tsx";
import { stepsOf } from "../again/run-again.ts";
import { useConnection } from "../data/connection.tsx";
import { curlOfUserMessage } from "../parts/take-out.ts";
import { visibleName } from "../parts/text.ts";
import { apiUrl, hrefOf, navigate, sessionRoute } from "../route.ts";
import { IconButton } from "../shell/button.tsx";
import { ActionMenu } from "../shell/menu.tsx";
import { attempt, copyText } from "../shell/toasts.tsx";
import { committedAnswer } from "./session-store.ts";
import { useConversationStore } from "./use-conversation.ts";

export function MessageActions({ index, message }: { readonly index: number; readonly message: Message }): ReactNode {
  const [isUsed, setUsed] = useState(false);
  return (
    <div className="msg-actions">
      {isUsed ? (
        <OpenMenu index={index} message={message} />
      ) : (
        <IconButton aria-haspopup="menu" label={`Actions on message ${index + 1}`} onClick={() => setUsed(true)}>
          ⋯
        </IconButton>
      )}
    </div>
  );
}

function OpenMenu({ index, message }: { readonly index: number; readonly message: Message }): ReactNode {
  const { client } = useConnection();
  const { state } = useConversationStore();
  const { sessionId } = state.get();
  const [again, setAgain] = useState<Step | null>(null);
  const steps = stepsOf(message, index, (callId) => committedAnswer(state.get(), index, callId));
  const fork = (): void =>
    attempt(async () => {
      const forked = await client.fork(sessionId, { at: index + 1 });
      navigate(sessionRoute(forked));
    });
  const link = new URL(hrefOf(sessionRoute(sessionId, { message: index })), location.href).href;
  const actions = [
    ...steps.map((step, position) => ({ id: `again-${position}`, label: labelOf(step), run: () => setAgain(step) })),
    { id: "fork", label: "Fork from here", run: fork },
    { id: "copy-link", label: "Copy link", run: () => copyText(link) },
    { id: "copy-json", label: "Copy as JSON", run: () => copyText(JSON.stringify(message, null, 2)) },
    ...(message.role === "user"
      ? [
          {
            id: "copy-curl",
            label: "Copy as curl that sends it",
            run: () => copyText(curlOfUserMessage(apiUrl(), sessionId, message)),
          },
        ]
      : []),
  ];
  return (
    <>
      <ActionMenu label={`Actions on message ${index + 1}`} className="icon-btn" isOpen actions={actions} />
      {again !== null && <RunAgainDialog step={again} close={() => setAgain(null)} />}
    </>
  );
}

function labelOf(step: Step): string {
  switch (step.type) {
    case "message":
      return "Edit and run again…";
    case "model":
      return "Run this step again…";
    case "call":
      return `Run ${visibleName(step.name)} again…`;
  }
}
