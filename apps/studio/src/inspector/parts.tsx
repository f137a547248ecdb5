// Small parts of the inspector: tiles, and failures with their cause chain.

import type { TimelineEffect } from "everturn/advanced";
import type { ReactNode } from "react";

import { visibleName } from "../parts/text.ts";
import { PlainText } from "../text/long-text.tsx";

/** A number with its name. */
export function Tile({ name, children }: { readonly name: string; readonly children: ReactNode }): ReactNode {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="tnum">{children}</dd>
    </div>
  );
}

type AnyFailure = NonNullable<TimelineEffect["failure"]>;

/**
 * A failure: its kind and reason, its message, and the errors that caused it, the last one being the first that
 * happened.
 */
export function FailureView({ failure }: { readonly failure: AnyFailure }): ReactNode {
  return (
    <ol className="insp-failure">
      <li>
        <span className="tag crash">
          {failure.type} · {failure.reason}
        </span>
        <PlainText text={failure.message} limit={1000} />
        {facts(failure).length > 0 && <p className="muted">{facts(failure).join(" · ")}</p>}
      </li>
      {causesOf(failure).map(({ name, message }, index) => (
        <li key={index}>
          <span className="muted">caused by</span> <code>{visibleName(name)}</code>
          <PlainText text={message} limit={1000} />
        </li>
      ))}
    </ol>
  );
}

/** What a provider or a tool says about its failure. */
function facts(failure: AnyFailure): readonly string[] {
  return [
    ...("status" in failure && failure.status !== null ? [`HTTP status ${failure.status}`] : []),
    ...("provider" in failure && failure.provider !== null ? [visibleName(failure.provider)] : []),
    ...("code" in failure && failure.code !== null ? [`code ${visibleName(failure.code)}`] : []),
    ...("requestId" in failure && failure.requestId !== null ? [`request ${visibleName(failure.requestId)}`] : []),
    ...("retryable" in failure ? [failure.retryable ? "may succeed later" : "not retryable"] : []),
  ];
}

/** The chain of causes. */
function causesOf({ cause }: AnyFailure): readonly { readonly name: string; readonly message: string }[] {
  const causes: { readonly name: string; readonly message: string }[] = [];
  for (let next = cause; next !== null && causes.length < 32; next = next.cause) causes.push(next);
  return causes;
}
