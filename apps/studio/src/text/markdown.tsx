// Markdown of messages, with tables and formulas. Raw HTML is shown as text. Links lead to web and mail addresses only, and images are shown only
// if they are in the message itself.

import type { ComponentProps, ReactNode } from "react";
import type { Components } from "react-markdown";

import { Component, memo } from "react";
import ReactMarkdown from "react-markdown";
import remarkGfm from "remark-gfm";

import { wordClass } from "../parts/text.ts";
import { CodeBlock } from "./code-block.tsx";
import { Formula } from "./formula.tsx";
import { isSafeImage, safeLink } from "./links.ts";
import { LongText } from "./long-text.tsx";
import { remarkFormulas } from "./math-syntax.ts";

/** A longer text is cut: parsing Markdown takes about a millisecond for each kilobyte. */
const maxLength = 12_000;

const plugins = [remarkGfm, remarkFormulas];

const components: Components = {
  a: ({ href, children }) => <SafeLink url={href ?? ""}>{children}</SafeLink>,
  img: ({ src, alt = "" }) => {
    const url = typeof src === "string" ? src : "";
    if (isSafeImage(url)) return <img src={url} alt={alt} loading="lazy" />;
    return <SafeLink url={url}>{alt === "" ? "image" : alt}</SafeLink>;
  },
  pre: ({ children }) => <>{children}</>,
  code: ({ className, children }) => {
    const text = typeof children === "string" ? children : "";
    if (className === "math-inline") return <Formula tex={text} isDisplay={false} />;
    if (className === "math-display" || className === "language-math") return <Formula tex={text.trim()} isDisplay />;
    const language = /language-([\w+#-]{1,30})/.exec(className ?? "")?.[1] ?? null;
    // Only the text of a code block ends with a line break.
    if (language === null && !text.endsWith("\n")) return <code>{children}</code>;
    return <CodeBlock text={text.replace(/\n$/, "")} language={language} />;
  },
  table: ({ children }) => (
    <div className="table-scroll" role="region" aria-label="Table" tabIndex={0}>
      <table>{children}</table>
    </div>
  ),
  p: ({ children }) => <p dir="auto">{children}</p>,
  li: ({ children, className }) => (
    <li dir="auto" className={className}>
      {children}
    </li>
  ),
  // Headings of a message are below the title of the session.
  h1: ({ children }) => <h2 dir="auto">{children}</h2>,
  h2: ({ children }) => <h3 dir="auto">{children}</h3>,
  h3: ({ children }) => <h4 dir="auto">{children}</h4>,
  h4: ({ children }) => <h5 dir="auto">{children}</h5>,
  h5: ({ children }) => <h6 dir="auto">{children}</h6>,
  input: ({ checked }: ComponentProps<"input">) => (
    <input
      type="checkbox"
      checked={checked === true}
      readOnly
      disabled
      aria-label={checked === true ? "done" : "open"}
    />
  ),
};

export const Markdown = memo(function Markdown({ text }: { readonly text: string }): ReactNode {
  return (
    <div className={`md ${wordClass(text)}`}>
      <LongText text={text} limit={maxLength} render={(part) => <Rendered text={part} />} />
    </div>
  );
});

function Rendered({ text }: { readonly text: string }): ReactNode {
  if (isOneParagraph(text)) return <p dir="auto">{text}</p>;
  if (isTooDeep(text)) return <PlainParagraph text={text} />;
  return (
    <PlainOnError text={text}>
      <ReactMarkdown remarkPlugins={plugins} components={components} urlTransform={keepUrl}>
        {text}
      </ReactMarkdown>
    </PlainOnError>
  );
}

/** The components decide what an address may do. */
function keepUrl(url: string): string {
  return url;
}

/**
 * Whether a text is one line in which no character has a meaning in Markdown. Such a text needs no parser, whose time
 * is most of what a short message costs while scrolling. The first character is a letter, so that the line begins no
 * list and no block of code; the dot of `www.` and the colon of `https://` begin links, and two dollars may be a formula.
 */
export function isOneParagraph(text: string): boolean {
  return (
    /^\p{L}(?:[\p{L}\p{N},;?'"()%$€/=+–—… -]|\.(?![^\s.])|:(?!\/))*$/u.test(text) &&
    !text.endsWith(" ") &&
    !/\$.*\$/.test(text)
  );
}

/** Whether quotes or lists are nested so deep that rendering them could exceed the stack. */
export function isTooDeep(text: string): boolean {
  return /^(?:[ \t]{0,200}(?:>|[-*+](?=\s)|\d{1,9}[.)](?=\s))){30}/m.test(text) || /[[({*_]{300}/.test(text);
}

function SafeLink({ url, children }: { readonly url: string; readonly children: ReactNode }): ReactNode {
  const href = safeLink(url);
  if (href === null) return <span className="dead-link">{children}</span>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer" title={href.slice(0, 300)}>
      {children}
    </a>
  );
}

function PlainParagraph({ text }: { readonly text: string }): ReactNode {
  return (
    <p className="plain" dir="auto">
      {text}
    </p>
  );
}

/** Shows the text itself if its Markdown cannot be rendered. */
class PlainOnError extends Component<
  { readonly text: string; readonly children: ReactNode },
  { readonly hasFailed: boolean }
> {
  override state = { hasFailed: false };

  static getDerivedStateFromError(): { readonly hasFailed: boolean } {
    return { hasFailed: true };
  }

  override render(): ReactNode {
    return this.state.hasFailed ? <PlainParagraph text={this.props.text} /> : this.props.children;
  }
}
