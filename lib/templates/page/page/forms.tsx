// What a person fills in: the approval of a call, and the answer to a question.

import { useState } from "react";

type ApprovalProps = { name: string; input: unknown; onDecide: (json: string, approved: boolean) => void };

/** A call that waits for an approval, with all its arguments, which can be edited as JSON. */
export function Approval({ name, input, onDecide }: ApprovalProps) {
  const original = JSON.stringify(input, null, 2);
  const [text, setText] = useState(original);
  return (
    <fieldset className="approval">
      <legend>May {name} run with these arguments?</legend>
      <textarea rows={text.split("\n").length} value={text} onChange={(event) => setText(event.target.value)} />
      <button disabled={!isJson(text)} onClick={() => onDecide(text, true)}>
        Approve
      </button>
      <button onClick={() => onDecide(original, false)}>Deny</button>
    </fieldset>
  );
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

type QuestionProps = { question: string; choices: unknown; onAnswer: (answer: string) => void };

/** A question of a tool. `choices`: answers that the tool suggests. */
export function Question({ question, choices, onAnswer }: QuestionProps) {
  return (
    <form
      className="question"
      onSubmit={(event) => {
        event.preventDefault();
        const answer = String(new FormData(event.currentTarget).get("answer")).trim();
        if (answer !== "") onAnswer(answer);
      }}
    >
      <strong>{question}</strong>
      {(Array.isArray(choices) ? choices.map(String) : []).map((choice) => (
        <button key={choice} type="button" onClick={() => onAnswer(choice)}>
          {choice}
        </button>
      ))}
      <input name="answer" autoFocus placeholder="Your answer" />
      <button>Answer</button>
    </form>
  );
}
