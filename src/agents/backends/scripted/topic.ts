/** What a script understands of a person's words: enough to answer to them, no more. */
export type Topic = {
  /** What it is about, in the person's own words, without greeting and request: "a login page with email". */
  readonly title: string;
  /** The words that carry the meaning, in order, at most five. */
  readonly words: readonly string[];
  readonly kind: 'greeting' | 'thanks' | 'question' | 'request';
  /** Two things between which the words leave the choice. */
  readonly choice: readonly [string, string] | null;
};

/** Reads a message, without the name of the agent that it addresses. */
export function topicOf(text: string): Topic {
  const plain = text.slice(0, READ).replace(/\s+/g, ' ').trim();
  const sentence = plain.split(/(?<=[.!?])\s/)[0] ?? plain;
  const title = shortened(
    sentence
      .replace(OPENING, '')
      .replace(/,? please[.!?]*$/i, '')
      .replace(/[\s.!?,;:]+$/, ''),
  );
  return {
    title: title === '' ? 'this' : title,
    words: keyWords(plain),
    kind: kindOf(plain),
    choice: choiceIn(plain),
  };
}

/** A name for code: "a login page" becomes `loginPage`. */
export function identifier(words: readonly string[]): string {
  const ascii = words.map((word) => word.normalize('NFKD').replace(/[^A-Za-z0-9]/g, '')).filter((word) => word !== '');
  const [first = 'feature', ...rest] = ascii.map((word) => word.toLowerCase());
  const name = [first, ...rest.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`)].join('');
  return /^\d/.test(name) ? `make${name}` : name;
}

/** The text with a capital first letter. */
export function capital(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

const OPENING =
  /^(?:(?:hi|hello|hey|ok|okay|so|well|team|all|everyone|please|now)\b[\s,!.]*)*(?:(?:can|could|would|will) (?:you|we|someone) |(?:i|we) (?:want|need|would like|'d like) (?:you )?(?:to (?:have )?)?|let'?s |help (?:me|us) (?:to )?)?(?:please )?(?:(?:build|make|create|add|write|design|implement|develop|plan|do) (?!(?:it|this|that|them|sure)\b)(?:me |us )?)?/i;
const GREETING = /^(?:hi|hello|hey|good (?:morning|evening|afternoon)|moin|yo)\b[^.?!]{0,20}[.?!]?$/i;
const THANKS = /^(?:thanks?|thank you|thx|great|nice|perfect|cool|well done|ok|okay)\b[^?]{0,30}$/i;
const WISH = /^(?:please |hey |hi |hello )?(?:can|could|would|will) (?:you|we|someone|anybody) /i;
const QUESTION = /\?\s*$|^(?:what|why|how|who|when|where|which|is|are|does|do|should)\b/i;
const FILLER = new Set(
  (
    'a an and are as at be by can could do does for from get give go have help how i in into is it its just let like make ' +
    'me my need new no not of on one or our out please should so some than that the them then there they this to try up us ' +
    'use want was we what when where which who why will with would you your build create add write design implement plan hello hi hey'
  ).split(' '),
);

function keyWords(text: string): readonly string[] {
  const all = text.toLowerCase().match(/[\p{L}\p{N}][\p{L}\p{N}'-]*/gu) ?? [];
  return [...new Set(all.filter((word) => !FILLER.has(word) && word.length > 1))].slice(0, 5);
}

function kindOf(text: string): Topic['kind'] {
  if (GREETING.test(text)) return 'greeting';
  if (THANKS.test(text)) return 'thanks';
  return QUESTION.test(text) && !WISH.test(text) ? 'question' : 'request';
}

function choiceIn(text: string): readonly [string, string] | null {
  const either = /([\p{L}\p{N}.+#-]+),? or (?:an? |the |in |with |on )?([\p{L}\p{N}.+#-]+)/iu.exec(text);
  const [, first, second] = either ?? [];
  if (first === undefined || second === undefined) return null;
  const idle = FILLER.has(first.toLowerCase()) || /^(?:not|so|two|more|less|else)$/i.test(second);
  return idle ? null : [first, second.replace(/[.]+$/, '')];
}

function shortened(text: string): string {
  if (text.length <= LONGEST) return text;
  return `${text.slice(0, LONGEST).replace(/\s+\S*$/, '')} …`;
}

const LONGEST = 90;
/** How much of a message is read at all. */
const READ = 2_000;
