// A failure with its chain of causes.

import type { Failure } from "everturn";
import type { ReactNode } from "react";

import { PlainText } from "../text/long-text.tsx";

type Cause = NonNullable<Failure["cause"]>;

export function FailureCard({
  title,
  failure,
  children = null,
}: {
  readonly title: string;
  readonly failure: Failure;
  readonly children?: ReactNode;
}): ReactNode {
  const causes = causesOf(failure.cause);
  return (
    <section className="card failure" aria-label={title}>
      <div className="head">
        <span className="tag crash">{title}</span>
        <span className="mono">{failure.reason}</span>
      </div>
      <div className="body">
        <PlainText text={failure.message} limit={1000} />
        {causes.length > 0 && (
          <ol className="causes" aria-label="Causes">
            {causes.map(({ name, message }, index) => (
              <li key={index}>
                <span className="muted">caused by</span> <span className="mono">{name}</span>{" "}
                <span dir="auto">{message}</span>
              </li>
            ))}
          </ol>
        )}
        {children}
      </div>
    </section>
  );
}

function causesOf(cause: Cause | null): readonly Cause[] {
  const causes: Cause[] = [];
  for (let next = cause; next !== null && causes.length < 20; next = next.cause) causes.push(next);
  return causes;
}
