// An effect that is being performed: it has no row of the journal yet.

import type { ServerView } from "everturn/client";
import type { OpenEffect } from "everturn/react";
import type { ReactNode } from "react";

import { visibleName } from "../parts/text.ts";
import { crashSentence } from "./crash-sentence.ts";

export function OpenEffectView({
  effect: { kind, name, step },
  rerun,
  durability,
}: {
  readonly effect: OpenEffect;
  readonly rerun: string | null;
  readonly durability: ServerView["durability"];
}): ReactNode {
  return (
    <div className="insp">
      <h2>
        <span className={`tag ${kind}`}>{kind}</span>
        <span>
          step {step + 1}
          {kind === "tool" && <span className="mono"> · {visibleName(name)}</span>}
        </span>
        <span className="status run">running</span>
      </h2>
      <p className="muted">The journal has a row for it once its result is recorded.</p>
      <section>
        <h3>What happens if it crashes here?</h3>
        <p className="muted">
          {crashSentence({ kind, state: "open", ordinal: null, name, rerun, durability, hasEnded: false })}
        </p>
      </section>
    </div>
  );
}
