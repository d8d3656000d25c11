import { INTERRUPT_MODES, MODES, ORDERS, POLICIES } from '../../../turns/floor/policies.ts';
import type { JSX } from 'preact';
import { Icon } from '../icons.tsx';
import { pressButton, sendCommand } from '../sending.ts';
import { view } from '../state.ts';

/** How this floor works, and the rest of what operators can do. */
export function Controls(): JSX.Element {
  const floor = view.value;
  const mode = floor?.mode ?? 'inject';
  const order = floor?.order ?? 'round-robin';
  return (
    <section class="block" aria-labelledby="controls-title">
      <h2 id="controls-title">How it works here</h2>
      <Choice
        label="When a person writes mid-turn"
        value={mode}
        values={INTERRUPT_MODES}
        summary={MODES[mode].summary}
        choose={(value) => pressButton(`/floor mode ${value}`)}
      />
      <Choice
        label="Who is next"
        value={order}
        values={ORDERS}
        summary={POLICIES[order].summary}
        choose={(value) => pressButton(`/floor order ${value}`)}
      />
      <div class="buttons">
        {floor?.holder != null && (
          <button type="button" class="small-button" onClick={() => pressButton('/floor extend 60')}>
            <Icon name="clock" />
            One minute more
          </button>
        )}
        <button type="button" class="small-button" onClick={() => pressButton('/floor start')}>
          <Icon name="play" />
          Start an exchange
        </button>
        <button type="button" class="small-button" onClick={() => sendCommand('/floor status', { typed: true })}>
          Status
        </button>
        <button type="button" class="small-button" onClick={() => sendCommand('/help', { typed: true })}>
          All commands
        </button>
      </div>
    </section>
  );
}

function Choice(props: {
  readonly label: string;
  readonly value: string;
  readonly values: readonly string[];
  readonly summary: string;
  readonly choose: (value: string) => void;
}): JSX.Element {
  const id = `choice-${props.label.toLowerCase().replaceAll(' ', '-')}`;
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      <select id={id} value={props.value} onChange={(event) => props.choose(event.currentTarget.value)}>
        {props.values.map((value) => (
          <option key={value} value={value}>
            {value}
          </option>
        ))}
      </select>
      <p class="faint">{props.summary}</p>
    </div>
  );
}
