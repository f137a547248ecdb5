// Shows a JSON value as a tree. Fast for values of a megabyte: closed nodes draw nothing inside, long lists and objects
// are drawn in parts, and long texts are cut until the reader asks for more.

import type { Json } from "everturn";
import type { ReactNode } from "react";

import { useState } from "react";

import { count } from "../parts/format.ts";
import { beginning } from "../parts/text.ts";

/** Children that are drawn at first, and with each "more". */
const partSize = 100;
/**
 * Characters of a text that are drawn at first, and with each "more". The second is larger, because the reader has
 * asked for it.
 */
const firstTextLength = 400;
const moreTextLength = 20_000;
/** Nodes with more children than this are closed at first, below the top level. */
const maxOpenChildren = 24;
const maxOpenDepth = 3;

export function JsonTree({ value, label }: { readonly value: Json; readonly label: string }): ReactNode {
  return (
    <div className="json mono" role="group" aria-label={label}>
      <Node name={null} value={value} depth={0} />
    </div>
  );
}

function Node({
  name,
  value,
  depth,
}: {
  readonly name: string | null;
  readonly value: Json;
  readonly depth: number;
}): ReactNode {
  const isContainer = typeof value === "object" && value !== null;
  const size = isContainer ? childCount(value) : 0;
  const [isOpen, setIsOpen] = useState(depth === 0 || (depth < maxOpenDepth && size <= maxOpenChildren));
  const [shown, setShown] = useState(partSize);
  if (!isContainer || size === 0) {
    return (
      <div className="json-row">
        <Key name={name} />
        <Scalar value={value} />
      </div>
    );
  }
  const [opening, closing] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  return (
    <div className="json-node">
      <button type="button" className="json-toggle" aria-expanded={isOpen} onClick={() => setIsOpen((open) => !open)}>
        <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span> <Key name={name} />
        {isOpen ? (
          opening
        ) : (
          <span className="json-closed">{`${opening} ${count(size)} ${Array.isArray(value) ? "items" : "fields"} ${closing}`}</span>
        )}
      </button>
      {isOpen && (
        <>
          <div className="json-children">
            {childrenOf(value, shown).map(([key, child]) => (
              <Node key={key} name={Array.isArray(value) ? null : key} value={child} depth={depth + 1} />
            ))}
            {size > shown && (
              <button type="button" className="json-more" onClick={() => setShown((before) => before + partSize)}>
                {count(size - shown)} more…
              </button>
            )}
          </div>
          {closing}
        </>
      )}
    </div>
  );
}

function Key({ name }: { readonly name: string | null }): ReactNode {
  if (name === null) return null;
  return (
    <>
      <span className="json-key" dir="auto">
        {JSON.stringify(beginning(name, 200))}
      </span>
      {": "}
    </>
  );
}

function Scalar({ value }: { readonly value: Json }): ReactNode {
  const [length, setLength] = useState(firstTextLength);
  if (typeof value === "string") {
    const text = beginning(value, length);
    return (
      <>
        <span className="json-string" dir="auto">
          {JSON.stringify(text).slice(0, text.length < value.length ? -1 : undefined)}
        </span>
        {text.length < value.length && (
          <button type="button" className="json-more" onClick={() => setLength((before) => before + moreTextLength)}>
            … {count(value.length - text.length)} more characters
          </button>
        )}
      </>
    );
  }
  if (typeof value === "object" && value !== null) return <span>{Array.isArray(value) ? "[]" : "{}"}</span>;
  return <span className="json-number">{String(value)}</span>;
}

function childCount(value: object): number {
  return Array.isArray(value) ? value.length : Object.keys(value).length;
}

/** The first children of a node. */
function childrenOf(value: Extract<Json, object>, shown: number): readonly (readonly [string, Json])[] {
  return Object.entries(value).slice(0, shown);
}
