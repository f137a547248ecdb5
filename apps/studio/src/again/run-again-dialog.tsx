// The dialog "Edit and run again": one step of a session with a changed message, prompt, tool set, argument or result.
// It runs in a fork, and both are shown side by side.

import type { Change, Step } from "./run-again.ts";
import type { ReactNode } from "react";

import { useId, useState } from "react";

import { useConversationPart } from "../conversation/use-conversation.ts";
import { useConnection } from "../data/connection.tsx";
import { useEngines } from "../data/engines.ts";
import { parsedObject } from "../parts/json.ts";
import { visibleName } from "../parts/text.ts";
import { newColumnSettings, optionsOf, withoutEngine } from "../playground/column-settings.ts";
import { ToolChoice } from "../playground/tool-choice.tsx";
import { navigate } from "../route.ts";
import { Button, Toggle } from "../shell/button.tsx";
import { Modal } from "../shell/modal.tsx";
import { notifyError } from "../shell/toasts.tsx";
import { runAgain } from "./run-again.ts";
import "./run-again.css";

export function RunAgainDialog({ step, close }: { readonly step: Step; readonly close: () => void }): ReactNode {
  const { client } = useConnection();
  const sessionId = useConversationPart((state) => state.sessionId);
  const [isRunning, setRunning] = useState(false);
  const run = async (change: Change, options: Parameters<typeof runAgain>[4]): Promise<void> => {
    setRunning(true);
    try {
      const fork = await runAgain(client, sessionId, step, change, options);
      close();
      navigate({ view: "compare", left: sessionId, right: fork });
    } catch (error) {
      notifyError(error);
      setRunning(false);
    }
  };
  return (
    <Modal title={titleOf(step)} close={close} className="run-again">
      <p className="muted">
        It runs in a copy of the session that ends before this step. The original stays as it is, and both are shown
        side by side.
      </p>
      {step.type === "call" ? (
        <CallForm step={step} isRunning={isRunning} run={(change) => void run(change, {})} />
      ) : (
        <ModelForm step={step} isRunning={isRunning} run={(change, options) => void run(change, options)} />
      )}
    </Modal>
  );
}

function titleOf(step: Step): string {
  return step.type === "message"
    ? "Edit the message and run again"
    : step.type === "model"
      ? "Run this step again"
      : `Run ${visibleName(step.name)} again`;
}

/** The message, if there is one, the instructions and the tools of the turn. */
function ModelForm({
  step,
  isRunning,
  run,
}: {
  readonly step: Exclude<Step, { readonly type: "call" }>;
  readonly isRunning: boolean;
  readonly run: (change: Change, options: Parameters<typeof runAgain>[4]) => void;
}): ReactNode {
  const { server } = useConnection();
  const name = useConversationPart(({ head }) => head?.engine ?? "default");
  const engine = useEngines().data?.find((other) => other.name === name) ?? null;
  const [text, setText] = useState(step.type === "message" ? step.text : "");
  const [settings, setSettings] = useState(() => newColumnSettings({ name }));
  const allows = (option: string): boolean => server.allow.includes(option);
  const isEmpty = step.type === "message" && text.trim() === "";
  return (
    <form
      className="run-again-form"
      onSubmit={(event) => {
        event.preventDefault();
        const { options } = optionsOf(settings, server.allow);
        run(step.type === "message" ? { type: "message", text } : { type: "model" }, withoutEngine(options));
      }}
    >
      {step.type === "message" && (
        <label>
          Message
          <textarea rows={4} dir="auto" value={text} onChange={({ target }) => setText(target.value)} />
        </label>
      )}
      {allows("instructions") && (
        <label>
          Instructions
          <textarea
            rows={4}
            dir="auto"
            value={settings.instructions}
            placeholder={engine?.instructions ?? "as the engine"}
            onChange={({ target }) => setSettings({ ...settings, instructions: target.value })}
          />
        </label>
      )}
      {engine !== null && allows("activeTools") && engine.tools.length > 0 && (
        <ToolChoice
          tools={engine.tools}
          chosen={settings.tools}
          change={(tools) => setSettings({ ...settings, tools })}
        />
      )}
      {!allows("instructions") && step.type === "model" && (
        <p className="muted">This server does not allow callers to change the prompt and the tools (option `allow`).</p>
      )}
      <div className="actions end">
        <Button type="submit" look="primary" disabled={isRunning || isEmpty}>
          Run again
        </Button>
      </div>
    </form>
  );
}

/** The arguments or the result of a call. */
function CallForm({
  step,
  isRunning,
  run,
}: {
  readonly step: Extract<Step, { readonly type: "call" }>;
  readonly isRunning: boolean;
  readonly run: (change: Change) => void;
}): ReactNode {
  const id = useId();
  const [changes, setChanges] = useState<"arguments" | "result">("arguments");
  const [args, setArgs] = useState(() => JSON.stringify(step.arguments, null, 2));
  const [result, setResult] = useState(step.result);
  const value = parsedObject(args);
  const isInvalid = changes === "arguments" && value === null;
  return (
    <form
      className="run-again-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (changes === "result") run({ type: "result", value: result });
        else if (value !== null) run({ type: "arguments", value });
      }}
    >
      <div role="group" aria-label="What changes" className="chips">
        <Toggle isOn={changes === "arguments"} onClick={() => setChanges("arguments")}>
          Other arguments
        </Toggle>
        <Toggle isOn={changes === "result"} onClick={() => setChanges("result")}>
          Another result
        </Toggle>
      </div>
      {changes === "arguments" ? (
        <label>
          Arguments, as JSON
          <textarea
            rows={8}
            className="mono"
            value={args}
            aria-invalid={isInvalid}
            aria-describedby={isInvalid ? id : undefined}
            onChange={({ target }) => setArgs(target.value)}
          />
          {isInvalid && (
            <span id={id} className="bad">
              must be a JSON object
            </span>
          )}
        </label>
      ) : (
        <label>
          Result that the model reads
          <textarea rows={8} dir="auto" value={result} onChange={({ target }) => setResult(target.value)} />
        </label>
      )}
      <p className={changes === "arguments" ? "wait-text" : "muted"}>
        {changes === "arguments"
          ? "The tool runs once more, outside of the original: what it changes elsewhere, it changes again."
          : "The tool does not run."}
      </p>
      <div className="actions end">
        <Button type="submit" look="primary" disabled={isRunning || isInvalid}>
          {changes === "arguments" ? "Run the tool again" : "Continue with this result"}
        </Button>
      </div>
    </form>
  );
}
