// The content of a message: text, reasoning, images, files, citations, and the calls of tools in their places.

import type { Json, JsonObject, Message, Part, ToolCall } from "everturn";
import type { ReactNode } from "react";

import { memo } from "react";

import { isObject } from "../parts/json.ts";
import { visibleName } from "../parts/text.ts";
import { JsonText, JsonView, parsedJson } from "../text/json-view.tsx";
import { imageUrl, safeLink } from "../text/links.ts";
import { PlainText } from "../text/long-text.tsx";
import { Markdown } from "../text/markdown.tsx";
import { Reasoning } from "./reasoning.tsx";

type Source = Extract<Part, { type: "file" }>["source"];

/** The content of a message of any role, without its calls that tools of the program answer. */
export const MessageContent = memo(function MessageContent({ message }: { readonly message: Message }): ReactNode {
  const { content, role } = message;
  if (typeof content === "string") return <MessageText text={content} isMarkdown={role === "assistant"} />;
  const parts: readonly Part[] = content;
  return parts.map((part, index) => (
    // The parts of a message never change.
    <MessagePart key={`${part.type}-${index}`} part={part} role={role} />
  ));
});

/** The text of a message. A reply that is a JSON object is structured output. */
function MessageText({ text, isMarkdown }: { readonly text: string; readonly isMarkdown: boolean }): ReactNode {
  if (text === "") return null;
  if (!isMarkdown) return <PlainText text={text} className="plain prose" />;
  const structured = parsedJson(text);
  if (structured === null) return <Markdown text={text} />;
  return (
    <section className="card structured" aria-label="Structured output">
      <div className="head">
        <span className="tag">structured output</span>
      </div>
      <div className="body">
        <JsonView value={structured} />
      </div>
    </section>
  );
}

function MessagePart({ part, role }: { readonly part: Part; readonly role: Message["role"] }): ReactNode {
  switch (part.type) {
    case "text":
      return (
        <>
          {part.kind === "refusal" && <span className="tag crash">refusal</span>}
          <MessageText text={part.text} isMarkdown={role === "assistant" && part.kind !== "code"} />
          <Citations metadata={part.metadata} />
        </>
      );
    case "reasoning":
      return <Reasoning text={part.text} isRedacted={part.redacted} />;
    case "image":
      return <ImageView source={part.image.source} mimeType={part.image.mimeType} prompt={part.image.prompt} />;
    case "file":
      return <FileView source={part.source} mimeType={part.mimeType} name={part.name} />;
    case "tool_call":
      return part.providerExecuted === null ? null : <ProviderCall call={part.providerExecuted} />;
    case "tool_result":
      return (
        <details className="fold">
          <summary>{part.isError ? "The provider's tool failed" : "Result of the provider's tool"}</summary>
          <JsonText value={part.content} />
        </details>
      );
    case "opaque":
      return <span className="tag">{visibleName(part.kind)}</span>;
  }
}

/** A call that the provider ran itself, for example a web search. */
function ProviderCall({ call }: { readonly call: ToolCall }): ReactNode {
  return (
    <details className="fold">
      <summary>
        <span className="mono">{visibleName(call.name)}</span> <span className="tag tool">run by the provider</span>
      </summary>
      <JsonText value={call.arguments ?? call.rawArguments ?? {}} />
    </details>
  );
}

function ImageView({
  source,
  mimeType,
  prompt = null,
}: {
  readonly source: Source;
  readonly mimeType: string | null;
  readonly prompt?: string | null;
}): ReactNode {
  const url = source.type === "base64" ? imageUrl(mimeType, source.data) : null;
  if (url === null) return <FileView source={source} mimeType={mimeType} name="image" />;
  return (
    <figure className="image">
      <img src={url} alt={prompt ?? "Image in the message"} loading="lazy" />
    </figure>
  );
}

/** A file: its name, type and size, and its address if it has one. The page never loads it. */
function FileView({
  source,
  mimeType,
  name,
}: {
  readonly source: Source;
  readonly mimeType: string | null;
  readonly name: string | null;
}): ReactNode {
  const href = source.type === "url" ? safeLink(source.url) : null;
  const label = visibleName(name ?? (source.type === "provider_file" ? source.id : "file"));
  return (
    <span className="file">
      <span aria-hidden="true">▤</span>
      {href === null ? (
        <span>{label}</span>
      ) : (
        <a href={href} target="_blank" rel="noopener noreferrer">
          {label}
        </a>
      )}
      <span className="muted">
        {[mimeType, source.type === "base64" ? fileSizeText(source.data) : null].filter(Boolean).join(" · ")}
      </span>
    </span>
  );
}

function fileSizeText(base64: string): string {
  const bytes = Math.floor((base64.length * 3) / 4);
  return bytes < 1024
    ? `${bytes} B`
    : bytes < 1_048_576
      ? `${Math.round(bytes / 1024)} KB`
      : `${(bytes / 1_048_576).toFixed(1)} MB`;
}

/**
 * Sources that a provider names for a text. Their shape is the provider's; addresses and titles are found by their
 * usual names.
 */
function Citations({ metadata }: { readonly metadata: JsonObject }): ReactNode {
  const list = [metadata["citations"], metadata["annotations"]].flatMap((value) => (Array.isArray(value) ? value : []));
  if (list.length === 0) return null;
  return (
    <ol className="citations" aria-label="Sources">
      {list.slice(0, 50).map((citation: Json, index) => {
        const url = textField(citation, ["url", "uri"]);
        const title = textField(citation, ["title", "document_title", "cited_text"]) ?? url ?? "source";
        const href = url === null ? null : safeLink(url);
        return (
          <li key={index} dir="auto">
            {href === null ? (
              visibleName(title).slice(0, 200)
            ) : (
              <a href={href} target="_blank" rel="noopener noreferrer">
                {visibleName(title).slice(0, 200)}
              </a>
            )}
          </li>
        );
      })}
    </ol>
  );
}

function textField(value: Json, names: readonly string[]): string | null {
  if (!isObject(value)) return null;
  for (const name of names) {
    const field = value[name];
    if (typeof field === "string" && field !== "") return field;
  }
  for (const field of Object.values(value)) {
    const inner = typeof field === "object" ? textField(field, names) : null;
    if (inner !== null) return inner;
  }
  return null;
}

/** The content of an answer of a tool: JSON as fields, other text as it is. */
export function AnswerContent({ content }: { readonly content: string | readonly Part[] }): ReactNode {
  if (typeof content === "string") return <AnswerText text={content} />;
  return content.map((part, index) =>
    part.type === "text" ? (
      <AnswerText key={index} text={part.text} />
    ) : (
      <MessagePart key={index} part={part} role="tool" />
    ),
  );
}

function AnswerText({ text }: { readonly text: string }): ReactNode {
  const value = parsedJson(text);
  return value === null ? <JsonText value={text} /> : <JsonView value={value} />;
}
