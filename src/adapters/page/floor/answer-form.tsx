import { useRef, useState } from 'preact/hooks';
import type { ComponentChildren, JSX } from 'preact';
import { BoundedMap } from '../../../lib/keyed.ts';
import type { AskedField } from '../../../turns/floor/settings.ts';
import { fieldHint, formWords, valuesListed } from '../../../turns/text/form.ts';
import type { FilledForm } from '../../../turns/text/form.ts';

type FormProps = {
  /** What it answers, unlike any other question. */
  readonly id: string;
  readonly fields: readonly AskedField[];
  /** The words of what was filled in; `refused` hears why they are not taken. */
  readonly answer: (words: string, refused: (wrong: Wrong) => void) => void;
  /** The buttons below. */
  readonly children: ComponentChildren;
};

/** Why words are not taken: in all, and by the names of fields. */
type Wrong = { readonly text: string; readonly fields?: Readonly<Record<string, string>> };

/** What is begun of forms; it outlives a look at another channel. */
const begun = new BoundedMap<string, FilledForm>(100);

/** A form that a server of tools asks people to fill in, with what is wrong beside its fields. */
export function AnswerForm({ id, fields, answer, children }: FormProps): JSX.Element {
  const form = useRef<HTMLFormElement>(null);
  const [wrong, setWrong] = useState<Wrong | null>(null);
  const [before] = useState(() => begun.get(id) ?? {});
  const filled = (): FilledForm => filledIn(form.current, fields);
  const submit = (event: Event): void => {
    event.preventDefault();
    setWrong(null);
    answer(formWords(filled()), (refused) => {
      setWrong(refused);
      const first = fields.findIndex(({ name }) => refused.fields?.[name] !== undefined);
      if (first !== -1) form.current?.querySelector<HTMLElement>(`#${fieldId(id, first)}`)?.focus();
    });
  };
  const isAbout = fields.some(({ name }) => wrong?.fields?.[name] !== undefined);
  return (
    <form
      ref={form}
      class="answer-form"
      data-testid="answer-form"
      noValidate={true}
      onSubmit={submit}
      onInput={() => begun.set(id, filled())}
    >
      {fields.map((field, index) => (
        <Field
          key={field.name}
          id={fieldId(id, index)}
          field={field}
          before={before[field.name]}
          wrong={wrong?.fields?.[field.name]}
        />
      ))}
      {wrong !== null && !isAbout && (
        <p class="field-error" role="alert">
          {wrong.text}
        </p>
      )}
      {children}
    </form>
  );
}

type FieldProps = {
  readonly id: string;
  readonly field: AskedField;
  /** What stood here before; absent: nothing yet. */
  readonly before: string | readonly string[] | undefined;
  readonly wrong: string | undefined;
};

function Field({ id, field, before, wrong }: FieldProps): JSX.Element {
  const { label, required, kind, options, initial = '' } = field;
  const hint = fieldHint(field);
  const name = [label, required && <span class="field-hint"> (required)</span>];
  const described = [...(hint === '' ? [] : [`${id}-hint`]), ...(wrong === undefined ? [] : [`${id}-error`])].join(' ');
  const told = { 'aria-invalid': wrong !== undefined, ...(described === '' ? {} : { 'aria-describedby': described }) };
  const isList = kind === 'some' && options.length > 0;
  const Frame = isList ? 'fieldset' : 'div';
  return (
    <Frame class="answer-field">
      {isList ? <legend>{name}</legend> : <label for={id}>{name}</label>}
      {isList ? (
        <Boxes id={id} field={field} value={typeof before === 'object' ? before : valuesListed(initial)} told={told} />
      ) : (
        <Control id={id} field={field} value={typeof before === 'string' ? before : initial} told={told} />
      )}
      {hint !== '' && (
        <span class="field-hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {wrong !== undefined && (
        <span class="field-error" id={`${id}-error`}>
          {wrong}
        </span>
      )}
    </Frame>
  );
}

type ControlProps<Value> = Pick<FieldProps, 'id' | 'field'> & { readonly value: Value; readonly told: object };

/** The first box stands for all of them: that is where the focus goes. */
function Boxes({ id, field, value, told }: ControlProps<readonly string[]>): JSX.Element {
  return (
    <>
      {field.options.map((option, index) => (
        <label key={option.value} class="check">
          <input
            {...told}
            id={index === 0 ? id : `${id}-${index}`}
            type="checkbox"
            name={field.name}
            value={option.value}
            defaultChecked={value.includes(option.value)}
          />
          {option.label}
        </label>
      ))}
    </>
  );
}

function Control({ id, field, value, told }: ControlProps<string>): JSX.Element {
  const { name, kind, required, options, most, format } = field;
  const common = { id, name, 'aria-required': required, ...told };
  if (kind === 'boolean' || options.length > 0) {
    return (
      <select {...common} data-testid="answer-field">
        <option value="">—</option>
        {(kind === 'boolean' ? YES_OR_NO : options).map((option) => (
          <option key={option.value} value={option.value} selected={option.value === value}>
            {option.label}
          </option>
        ))}
      </select>
    );
  }
  const isLong = kind === 'text' && format === undefined && (most === undefined || most > SHORT_TEXT);
  if (isLong) return <textarea {...common} data-testid="answer-field" rows={2} defaultValue={value} />;
  const plain = { ...common, 'data-testid': 'answer-field', defaultValue: value };
  if (format === 'date') return <input {...plain} type="date" />;
  const mode =
    kind === 'integer' ? 'numeric' : kind === 'number' ? 'decimal' : format === undefined ? null : KEYS[format];
  return <input {...plain} {...(mode === null ? {} : { inputMode: mode })} type="text" autocomplete="off" />;
}

/** The keys that a phone shows; whether a text keeps to its format is judged where every answer is. */
const KEYS = { email: 'email', uri: 'url', 'date-time': null } as const;
const YES_OR_NO = [
  { value: 'yes', label: 'Yes' },
  { value: 'no', label: 'No' },
];
const SHORT_TEXT = 100;

function fieldId(id: string, index: number): string {
  return `answer-${id.replaceAll(/\W/g, '-')}-${index}`;
}

function filledIn(form: HTMLFormElement | null, fields: readonly AskedField[]): FilledForm {
  const data = new FormData(form ?? undefined);
  return Object.fromEntries(
    fields.map(({ name, kind, options }) => {
      const given = data.getAll(name).filter((value) => typeof value === 'string');
      return [name, kind === 'some' && options.length > 0 ? given : (given[0] ?? '')];
    }),
  );
}
