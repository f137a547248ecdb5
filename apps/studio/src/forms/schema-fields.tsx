// The fields of a form from a JSON Schema. The model's value is struck through beside a field that was edited.

import type { Field } from "./schema-form.ts";
import type { Json, JsonObject } from "everturn/model";
import type { ReactNode } from "react";

import { useId, useState } from "react";

import { isObject } from "../parts/json.ts";
import { visibleName } from "../parts/text.ts";
import { isSameJson, listFrom, numberFrom, parsedOrProblem, problemOf, withField } from "./schema-form.ts";

export function SchemaFields({
  fields,
  value,
  original,
  change,
}: {
  readonly fields: readonly Field[];
  readonly value: JsonObject;
  /** The value that the model wrote. */
  readonly original: JsonObject;
  readonly change: (value: JsonObject) => void;
}): ReactNode {
  return fields.map((field) => (
    <FieldRow
      key={field.name}
      field={field}
      value={value[field.name]}
      original={original[field.name]}
      change={(next) => change(withField(value, field.name, next))}
    />
  ));
}

function FieldRow({
  field,
  value,
  original,
  change,
}: {
  readonly field: Field;
  readonly value: Json | undefined;
  readonly original: Json | undefined;
  readonly change: (value: Json | undefined) => void;
}): ReactNode {
  const id = useId();
  const { kind } = field;
  const problem = problemOf(field, value);
  if (kind.type === "object") {
    return (
      <fieldset className="field-group">
        <legend title={field.description}>{visibleName(field.name)}</legend>
        <SchemaFields
          fields={kind.fields}
          value={isObject(value) ? value : {}}
          original={isObject(original) ? original : {}}
          change={change}
        />
      </fieldset>
    );
  }
  const isEdited = !isSameJson(value, original);
  return (
    <div className="field">
      <label htmlFor={id} title={field.description}>
        {visibleName(field.name)}
        {field.isRequired && <span aria-hidden="true"> *</span>}
      </label>
      <FieldInput id={id} field={field} value={value} isInvalid={problem !== null} change={change} />
      {isEdited && (
        <s className="was" title="The value that the model wrote">
          {original === undefined ? "empty" : shortText(original)}
        </s>
      )}
      {problem !== null && (
        <span className="field-problem error-text" id={`${id}-problem`}>
          {problem}
        </span>
      )}
    </div>
  );
}

function FieldInput({
  id,
  field: { name, kind, isRequired },
  value,
  isInvalid,
  change,
}: {
  readonly id: string;
  readonly field: Field;
  readonly value: Json | undefined;
  readonly isInvalid: boolean;
  readonly change: (value: Json | undefined) => void;
}): ReactNode {
  const shared = {
    id,
    className: "input mono",
    "aria-invalid": isInvalid,
    ...(isInvalid ? { "aria-describedby": `${id}-problem` } : {}),
  };
  switch (kind.type) {
    case "string": {
      const text = typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
      // An optional text that was absent and is still empty stays absent.
      const set = (next: string): void => change(next === "" && value === undefined ? undefined : next);
      return text.length > 60 || text.includes("\n") ? (
        <textarea {...shared} dir="auto" rows={3} value={text} onChange={(event) => set(event.target.value)} />
      ) : (
        <input {...shared} dir="auto" value={text} onChange={(event) => set(event.target.value)} />
      );
    }
    case "number":
      return <NumberInput {...shared} value={value} change={change} />;
    case "boolean":
      return (
        <select
          {...shared}
          value={value === undefined ? "" : String(value)}
          onChange={(event) => change(event.target.value === "" ? undefined : event.target.value === "true")}
        >
          {(!isRequired || value === undefined) && <option value="">not set</option>}
          <option value="true">true</option>
          <option value="false">false</option>
        </select>
      );
    case "enum": {
      const position = kind.values.findIndex((option) => option === value);
      return (
        <select
          {...shared}
          value={position === -1 ? "" : `${position}`}
          onChange={(event) => change(event.target.value === "" ? undefined : kind.values[Number(event.target.value)])}
        >
          {position === -1 && <option value="">{value === undefined ? "not set" : shortText(value)}</option>}
          {kind.values.map((option, index) => (
            <option key={String(option)} value={`${index}`}>
              {visibleName(String(option))}
            </option>
          ))}
          {!isRequired && position !== -1 && <option value="">not set</option>}
        </select>
      );
    }
    case "list":
      return <ListInput {...shared} of={kind.of} value={value} change={change} />;
    default:
      return <JsonInput id={id} label={name} value={value ?? null} change={change} />;
  }
}

/**
 * The text of a field whose text is not the only one for its value: `1.` and `1`, a list with and without a last empty line. It is the text that the reader typed
 * while the field has the value of that text, and else the text of the value, for example after a reset.
 */
function useTypedText<T extends Json | undefined>(
  value: T,
  textOf: (value: T) => string,
): readonly [string, (text: string, value: T) => void] {
  const [typed, setTyped] = useState(() => ({ text: textOf(value), value }));
  const text = isSameJson(typed.value, value) ? typed.text : textOf(value);
  return [text, (next, nextValue) => setTyped({ text: next, value: nextValue })];
}

type InputAttributes = { readonly id: string; readonly className: string; readonly "aria-invalid": boolean };

/** A number as text, so that `1.` and `-` can be typed. */
function NumberInput({
  value,
  change,
  ...attributes
}: InputAttributes & {
  readonly value: Json | undefined;
  readonly change: (value: Json | undefined) => void;
}): ReactNode {
  const [text, setText] = useTypedText(value, (shown) => (shown === undefined ? "" : String(shown)));
  return (
    <input
      {...attributes}
      inputMode="decimal"
      value={text}
      onChange={(event) => {
        const next = numberFrom(event.target.value);
        setText(event.target.value, next);
        change(next);
      }}
    />
  );
}

/** A list of scalars, one on each line. An empty line at the end is not an item: the reader is about to write the next one. */
function ListInput({
  of,
  value,
  change,
  ...attributes
}: InputAttributes & {
  readonly of: "string" | "number" | "integer";
  readonly value: Json | undefined;
  readonly change: (value: Json | undefined) => void;
}): ReactNode {
  const [text, setText] = useTypedText(value, (shown) =>
    (Array.isArray(shown) ? shown : [])
      .map((item) => (typeof item === "string" ? item : JSON.stringify(item)))
      .join("\n"),
  );
  return (
    <textarea
      {...attributes}
      rows={Math.min(6, Math.max(2, text.split("\n").length))}
      placeholder="One item on each line"
      value={text}
      onChange={(event) => {
        const next = listFrom(event.target.value, of);
        setText(event.target.value, next);
        change(next);
      }}
    />
  );
}

/** An editor for a value as JSON. The value changes only while the text is valid JSON; otherwise the message says what is wrong. */
export function JsonInput({
  id,
  label,
  value,
  change,
}: {
  readonly id: string;
  readonly label: string;
  readonly value: Json;
  readonly change: (value: Json) => void;
}): ReactNode {
  const [text, setText] = useTypedText(value, (shown) => JSON.stringify(shown, null, 2));
  const { problem } = parsedOrProblem(text);
  const edit = (next: string): void => {
    const parsed = parsedOrProblem(next);
    setText(next, parsed.problem === null ? parsed.value : value);
    if (parsed.problem === null) change(parsed.value);
  };
  return (
    <span className="json-input">
      <textarea
        id={id}
        className="input mono"
        aria-label={label}
        aria-invalid={problem !== null}
        rows={Math.min(14, Math.max(2, text.split("\n").length))}
        spellCheck={false}
        value={text}
        onChange={(event) => edit(event.target.value)}
      />
      {problem !== null && (
        <span className="field-problem error-text" role="alert">
          Not JSON, the last valid value is kept: {problem}
        </span>
      )}
    </span>
  );
}

function shortText(value: Json): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return visibleName(text.length > 40 ? `${text.slice(0, 39)}…` : text);
}
