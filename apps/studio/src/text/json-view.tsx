// JSON values: the fields of a small object as a list, everything else as indented text.

import type { Json, JsonObject } from "everturn";
import type { ReactNode } from "react";

import { isObject } from "../parts/json.ts";
import { visibleName } from "../parts/text.ts";
import { LongText } from "./long-text.tsx";

const maxFields = 12;
const maxValueLength = 300;

/**
 * An object whose values are short is a list of fields, a list of short values has one on each line; other values are
 * shown as JSON. `show` changes the texts of values, for example to make invisible characters visible.
 */
export function JsonView({
  value,
  show = (text) => text,
}: {
  readonly value: Json;
  readonly show?: (text: string) => string;
}): ReactNode {
  if (Array.isArray(value) && isShortList(value)) {
    return (
      <ul className="values">
        {value.map((item, index) => (
          <li key={index} dir="auto">
            {visibleName(String(item))}
          </li>
        ))}
      </ul>
    );
  }
  if (isObject(value) && isFlat(value)) {
    return (
      <dl className="fields">
        {Object.entries(value).map(([name, field]) => (
          <div key={name}>
            <dt dir="auto">{visibleName(name)}</dt>
            <dd dir="auto">{show(shortText(field))}</dd>
          </div>
        ))}
      </dl>
    );
  }
  return <JsonText value={show(typeof value === "string" ? value : JSON.stringify(value, null, 2))} />;
}

/** A value as indented JSON, or a text as it is. */
export function JsonText({ value }: { readonly value: Json }): ReactNode {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return (
    <LongText
      text={text}
      limit={1500}
      render={(part) => (
        <pre className="data" dir="auto" tabIndex={mayScroll(part) ? 0 : undefined}>
          {part}
        </pre>
      )}
    />
  );
}

/**
 * Whether a text may be higher than its box, also on a telephone. A box that scrolls has to be reachable by the
 * keyboard.
 */
function mayScroll(text: string): boolean {
  return text.length > 600 || text.split("\n").length > 15;
}

/** The JSON value of a text, if it is an object or a list; otherwise `null`. Long texts are not parsed. */
export function parsedJson(text: string): Json {
  if (text.length > 200_000 || !/^\s*[[{]/.test(text)) return null;
  try {
    const value: Json = JSON.parse(text);
    return value;
  } catch {
    return null;
  }
}

/** A field on one line: lists and objects of scalars without quotes and brackets, everything else as JSON. */
function shortText(value: Json): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.length > 0 && value.every(isScalar)) return value.map(String).join(", ");
  if (isObject(value) && Object.keys(value).length > 0 && Object.values(value).every(isScalar)) {
    return Object.entries(value)
      .map(([name, field]) => `${name} ${String(field)}`)
      .join(" · ");
  }
  return JSON.stringify(value);
}

function isShortList(values: readonly Json[]): boolean {
  return (
    values.length > 0 &&
    values.length <= maxFields &&
    values.every(isScalar) &&
    values.join("").length <= maxValueLength
  );
}

function isScalar(value: Json): boolean {
  return typeof value !== "object" || value === null;
}

function isFlat(value: JsonObject): boolean {
  const fields = Object.values(value);
  return (
    fields.length > 0 &&
    fields.length <= maxFields &&
    fields.every((field) =>
      typeof field === "string"
        ? field.length <= maxValueLength
        : typeof field !== "object" || field === null || JSON.stringify(field).length <= 80,
    )
  );
}
