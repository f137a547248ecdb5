// The form that starts a session: the engine and the first message.

import type { FormEvent, ReactNode } from "react";

import { useId, useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { useEngines } from "../data/engines.ts";
import { navigate, sessionRoute, shownTenant } from "../route.ts";
import { Button } from "../shell/button.tsx";
import { useKeptText } from "../shell/draft.ts";
import { notifyError } from "../shell/toasts.tsx";

export function NewSession(): ReactNode {
  const { client } = useConnection();
  const engines = useEngines();
  const [engine, setEngine] = useState("");
  const [text, setText] = useKeptText(`new session ${shownTenant() ?? ""}`);
  const [isStarting, setStarting] = useState(false);
  const id = useId();
  const chosen =
    [engine, "default"].flatMap((name) => engines.data?.find((other) => other.name === name) ?? [])[0] ??
    engines.data?.[0];
  const start = async (): Promise<void> => {
    if (text.trim() === "" || isStarting) return;
    setStarting(true);
    try {
      const { sessionId } = await client.start(text, chosen === undefined ? {} : { engine: chosen.name });
      setText(() => "");
      navigate(sessionRoute(sessionId));
    } catch (error) {
      notifyError(error);
      setStarting(false);
    }
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    void start();
  };
  return (
    <form className="composer" onSubmit={submit}>
      <label className="visually-hidden" htmlFor={id}>
        First message
      </label>
      <textarea
        id={id}
        className="composer-text"
        rows={2}
        dir="auto"
        placeholder="Write the first message"
        autoFocus
        value={text}
        readOnly={isStarting}
        onChange={({ target: { value } }) => setText(() => value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
          event.preventDefault();
          void start();
        }}
      />
      <div className="composer-row">
        {engines.data !== null && engines.data.length > 0 && (
          <select
            className="select"
            aria-label="Engine"
            value={chosen?.name ?? ""}
            onChange={(event) => setEngine(event.target.value)}
          >
            {engines.data.map(({ name, model }) => (
              <option key={name} value={name}>
                {model === null ? name : `${name} · ${model}`}
              </option>
            ))}
          </select>
        )}
        <span className="spacer" />
        <Button type="submit" look="primary" disabled={text.trim() === "" || isStarting}>
          Start
        </Button>
      </div>
    </form>
  );
}
