// The fields of a form from a JSON Schema. The model's value is struck through beside a field that was edited.
//
// Theory of operation
//   The state of the form is one FormDraft, which belongs to the caller, so that it survives the removal of the form
//   from the document. A field has one input, an element that grows with its text and is never replaced by another one
//   while the reader types: the focus would fall to the page. Two kinds of values are shown as text first, with a
//   button that makes them editable: those with invisible characters, which an input cannot show, and long ones. A form
//   that is only read shows all values in this way.

import type { FormDraft } from "./form-draft.ts";
import type { Field, FieldPath } from "./schema-form.ts";
import type { Json, JsonObject } from "everturn";
import type { ReactNode, TextareaHTMLAttributes } from "react";

import { visibleText } from "everturn";
import { createContext, useContext, useEffect, useId, useLayoutEffect, useRef, useState } from "react";

import { count } from "../parts/format.ts";
import { isObject } from "../parts/json.ts";
import { exactName, visibleJson, wordClass } from "../parts/text.ts";
import { Button } from "../shell/button.tsx";
import { withUnread } from "./form-draft.ts";
import {
  fieldValue,
  isSameJson,
  listFrom,
  longTextOf,
  numberFrom,
  parsedOrProblem,
  pathKey,
  problemOf,
  fieldText,
  withField,
} from "./schema-form.ts";

type Form = {
  readonly draft: FormDraft;
  readonly isReadOnly: boolean;
  readonly change: (next: FormDraft) => void;
};

const FormContext = createContext<Form | null>(null);

function useForm(): Form {
  const form = useContext(FormContext);
  if (form === null) throw new Error("useForm is used outside of SchemaForm");
  return form;
}

/** A form with fields. */
export function SchemaForm({
  fields,
  draft,
  original,
  change,
  isReadOnly = false,
}: {
  readonly fields: readonly Field[];
  readonly draft: FormDraft;
  /** The value that the model wrote. */
  readonly original: JsonObject;
  readonly change: (draft: FormDraft) => void;
  /** The value is shown and cannot be edited. */
  readonly isReadOnly?: boolean;
}): ReactNode {
  return (
    <FormContext.Provider value={{ draft, change, isReadOnly }}>
      <Fields fields={fields} path={[]} value={draft.value} original={original} />
    </FormContext.Provider>
  );
}

/** A form with one field for the whole value, as JSON. */
export function JsonForm({
  draft,
  original,
  change,
}: {
  readonly draft: FormDraft;
  readonly original: JsonObject;
  readonly change: (draft: FormDraft) => void;
}): ReactNode {
  const id = useId();
  return (
    <FormContext.Provider value={{ draft, change, isReadOnly: false }}>
      <div className="field">
        <label htmlFor={id}>Arguments</label>
        <Shown id={id} path={[]} text={visibleJson(original)} isText={false}>
          <JsonInput id={id} path={[]} value={draft.value} isRequired mustBeObject />
        </Shown>
      </div>
    </FormContext.Provider>
  );
}

/** Sets the value at a path of the form. The text of the field can be read. */
function useChange(path: FieldPath): (value: Json | undefined) => void {
  const { draft, change } = useForm();
  return (next) => {
    const value = withValue(draft.value, path, next);
    change({ ...withUnread(draft, path, null), value: isObject(value) ? value : draft.value });
  };
}

function withValue(value: Json | undefined, [name, ...rest]: FieldPath, next: Json | undefined): Json | undefined {
  if (name === undefined) return next;
  const object = isObject(value) ? value : {};
  return withField(object, name, withValue(fieldValue(object, name), rest, next));
}

function Fields({
  fields,
  path,
  value,
  original,
}: {
  readonly fields: readonly Field[];
  readonly path: FieldPath;
  readonly value: JsonObject;
  readonly original: JsonObject;
}): ReactNode {
  return fields.map((field) => (
    <FieldRow
      key={field.name}
      field={field}
      path={[...path, field.name]}
      value={fieldValue(value, field.name)}
      original={fieldValue(original, field.name)}
    />
  ));
}

function FieldRow({
  field,
  path,
  value,
  original,
}: {
  readonly field: Field;
  readonly path: FieldPath;
  readonly value: Json | undefined;
  readonly original: Json | undefined;
}): ReactNode {
  const id = useId();
  const { isReadOnly } = useForm();
  const { kind } = field;
  if (kind.type === "object") {
    return (
      <fieldset className="field-group">
        <legend title={field.description}>{exactName(field.name)}</legend>
        <Fields
          // Nothing is required of an optional object that is absent.
          fields={value === undefined && !field.isRequired ? kind.fields.map(asOptional) : kind.fields}
          path={path}
          value={isObject(value) ? value : {}}
          original={isObject(original) ? original : {}}
        />
      </fieldset>
    );
  }
  const problem = isReadOnly ? null : problemOf(field, value);
  const isEdited = !isSameJson(value, original);
  const text = fieldText(kind, original);
  return (
    <div className="field">
      <label htmlFor={id} title={field.description}>
        {exactName(field.name)}
        {field.isRequired && !isReadOnly && <span aria-hidden="true"> *</span>}
        {kind.type === "list" && Array.isArray(value) && (
          <span className="item-count"> {value.length === 1 ? "1 item" : `${count(value.length)} items`}</span>
        )}
        {field.isInSchema === false && <span className="tag wait">not in the schema</span>}
      </label>
      <Shown id={id} path={path} text={text} isText={kind.type === "string"} isAbsent={original === undefined}>
        <FieldInput id={id} field={field} path={path} value={value} isInvalid={problem !== null} />
      </Shown>
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

function asOptional(field: Field): Field {
  return { ...field, isRequired: false };
}

/**
 * The input of a field, or its value as text: in a form that is read only, if the value has invisible characters, or if
 * its text is long.
 */
function Shown({
  id,
  path,
  text,
  isText,
  isAbsent = false,
  children,
}: {
  /** The id of the input. */
  readonly id: string;
  readonly path: FieldPath;
  /** The text of the model's value. */
  readonly text: string;
  /** The value is a text, and not JSON. */
  readonly isText: boolean;
  readonly isAbsent?: boolean;
  readonly children: ReactNode;
}): ReactNode {
  const { draft, change, isReadOnly } = useForm();
  const key = pathKey(path);
  const long = draft.revealed.includes(key) ? null : longTextOf(text);
  const isInvisible = isText && visibleText(text) !== text && !draft.editing.includes(key);
  const hasInput = !isReadOnly && long === null && !isInvisible;
  // The input takes the focus from the button that it replaces.
  const hadInput = useRef(hasInput);
  useEffect(() => {
    if (hasInput && !hadInput.current)
      document.querySelector<HTMLElement>(`#${CSS.escape(id)}`)?.focus({ preventScroll: true });
    hadInput.current = hasInput;
  }, [hasInput, id]);
  if (hasInput) return children;
  const shown = visibleText(long?.head ?? text);
  return (
    <div className="shown-value">
      {isAbsent ? (
        <span className="muted">not set</span>
      ) : (
        <pre className={`data ${wordClass(shown)}`} dir="ltr">
          {shown === "" ? <span className="muted">empty text</span> : shown}
        </pre>
      )}
      {long !== null ? (
        <div className="actions">
          <span className="hidden-part">{long.missing} are not shown.</span>
          <Button look="small" onClick={() => change({ ...draft, revealed: [...draft.revealed, key] })}>
            Show all {long.size}
          </Button>
        </div>
      ) : (
        isInvisible && (
          <div className="actions">
            <span className="hidden-part">Contains invisible characters, shown as ⟨code points⟩.</span>
            {!isReadOnly && (
              <Button look="small" onClick={() => change({ ...draft, editing: [...draft.editing, key] })}>
                Edit
              </Button>
            )}
          </div>
        )
      )}
    </div>
  );
}

function FieldInput({
  id,
  field: { kind, isRequired },
  path,
  value,
  isInvalid,
}: {
  readonly id: string;
  readonly field: Field;
  readonly path: FieldPath;
  readonly value: Json | undefined;
  readonly isInvalid: boolean;
}): ReactNode {
  const change = useChange(path);
  const shared = {
    id,
    className: "input mono",
    "aria-invalid": isInvalid,
    ...(isInvalid ? { "aria-describedby": `${id}-problem` } : {}),
  };
  switch (kind.type) {
    case "string":
      return (
        <GrowingText
          {...shared}
          dir="auto"
          value={fieldText(kind, value)}
          // An optional text that was absent and is still empty stays absent.
          onChange={({ target }) => change(target.value === "" && value === undefined ? undefined : target.value)}
        />
      );
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
          {(!isRequired || position === -1) && <option value="">not set</option>}
          {kind.values.map((option, index) => (
            <option key={String(option)} value={`${index}`}>
              {exactName(String(option))}
            </option>
          ))}
        </select>
      );
    }
    case "list":
      return <ListInput {...shared} of={kind.of} value={value} change={change} />;
    default:
      return <JsonInput id={id} path={path} value={value} isRequired={isRequired} />;
  }
}

/** A text field that is as high as its text. It is one element whatever the text is, so it keeps the focus. */
function GrowingText({
  value,
  ...attributes
}: TextareaHTMLAttributes<HTMLTextAreaElement> & { readonly value: string }): ReactNode {
  const element = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    if (element.current !== null) fitHeight(element.current);
  }, [value]);
  useLayoutEffect(() => {
    const field = element.current;
    if (field === null) return undefined;
    let width = field.clientWidth;
    const observer = new ResizeObserver(() => {
      if (field.clientWidth === width) return;
      width = field.clientWidth;
      fitHeight(field);
    });
    observer.observe(field);
    return () => observer.disconnect();
  }, []);
  const note = visibleText(value);
  return (
    <span className="growing">
      <textarea {...attributes} ref={element} rows={1} value={value} />
      {note !== value && (
        <span className="hidden-part">
          With its invisible characters: <code dir="ltr">{note}</code>
        </span>
      )}
    </span>
  );
}

function fitHeight(field: HTMLTextAreaElement): void {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + field.offsetHeight - field.clientHeight}px`;
}

/**
 * The text of a field whose text is not the only one for its value: `1.` and `1`, a list with and without a last empty
 * line. It is the text that the reader typed while the field has the value of that text, and else the text of the
 * value, for example after a reset.
 */
function useTypedText<T extends Json | undefined>(
  value: T,
  textOfValue: (value: T) => string,
): readonly [string, (text: string, value: T) => void] {
  const [typed, setTyped] = useState(() => ({ text: textOfValue(value), value }));
  const text = isSameJson(typed.value, value) ? typed.text : textOfValue(value);
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

/**
 * A list of scalars, one on each line. An empty line at the end is not an item: the reader is about to write the next
 * one.
 */
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
  const [text, setText] = useTypedText(value, (shown) => fieldText({ type: "list", of }, shown));
  return (
    <GrowingText
      {...attributes}
      placeholder="One item on each line"
      value={text}
      onChange={({ target }) => {
        // An optional list that was absent and is still empty stays absent.
        const next = target.value === "" && value === undefined ? undefined : listFrom(target.value, of);
        setText(target.value, next);
        change(next);
      }}
    />
  );
}

/**
 * An editor for a value as JSON. A text that is not JSON is kept in the form, which cannot be sent with it. An empty
 * text removes an optional value.
 */
function JsonInput({
  id,
  path,
  value,
  isRequired,
  mustBeObject = false,
}: {
  readonly id: string;
  readonly path: FieldPath;
  readonly value: Json | undefined;
  readonly isRequired: boolean;
  readonly mustBeObject?: boolean;
}): ReactNode {
  const { draft, change: changeDraft } = useForm();
  const change = useChange(path);
  const [typed, setTyped] = useTypedText(value, (shown) => (shown === undefined ? "" : visibleJson(shown)));
  const unread = draft.unread[pathKey(path)] ?? null;
  const read = (text: string): { readonly value: Json | undefined; readonly problem: string | null } => {
    if (text.trim() === "" && !isRequired) return { value: undefined, problem: null };
    const parsed = parsedOrProblem(text);
    const isWrong = parsed.problem === null && mustBeObject && !isObject(parsed.value);
    return isWrong ? { value: null, problem: "the arguments must be an object" } : parsed;
  };
  const problem = unread === null ? null : read(unread).problem;
  return (
    <span className="json-input">
      <GrowingText
        id={id}
        className="input mono"
        aria-invalid={problem !== null}
        {...(problem === null ? {} : { "aria-describedby": `${id}-problem` })}
        placeholder="not set"
        spellCheck={false}
        value={unread ?? typed}
        onChange={({ target }) => {
          const next = read(target.value);
          if (next.problem !== null) return changeDraft(withUnread(draft, path, target.value));
          setTyped(target.value, next.value);
          return change(next.value);
        }}
      />
      {problem !== null && (
        <span className="field-problem error-text" id={`${id}-problem`} role="alert">
          Not JSON: {problem}
        </span>
      )}
    </span>
  );
}

function shortText(value: Json): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return exactName(text.length > 40 ? `${text.slice(0, 39)}…` : text);
}
