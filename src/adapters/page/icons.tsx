import type { ComponentChildren, JSX } from 'preact';
import type { Status } from '../../turns/floor/floor.ts';

/** The shell: Conch's own sign. */
export function Shell(): JSX.Element {
  return (
    <svg class="shell" viewBox="0 0 32 32" aria-hidden="true">
      <path d="M27 20c0 5-4.600 8-10 8C9.500 28 4 23 4 16.500S9 5 15.500 5c5.400 0 9.500 3.800 9.500 8.600 0 4.200-3.200 7.200-7.200 7.200-3.400 0-6-2.300-6-5.300 0-2.500 1.900-4.300 4.300-4.300 2 0 3.400 1.300 3.400 3" />
      <path d="M27 20c1.500-.2 2-1.500 1.600-3" />
    </svg>
  );
}

const SHAPES: Readonly<Record<Status, ComponentChildren>> = {
  OFFLINE: <path d="M4 4l8 8M12 4l-8 8" />,
  IDLE: <circle cx="8" cy="8" r="4.500" />,
  QUEUED: <path d="M3.500 5h9M3.500 8h9M3.500 11h5" />,
  ACTIVE: <path d="M5 3.200l7.500 4.800L5 12.800z" fill="currentColor" />,
  WAITING: <path d="M5.500 4v8M10.500 4v8" />,
};

/** A shape for each state of a seat, so that colour is not the only difference. */
export function StatusShape(props: { readonly status: Status }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      {SHAPES[props.status]}
    </svg>
  );
}

const ICONS = {
  skip: <path d="M3.500 4l5 4-5 4zM11.500 4v8" />,
  stop: <rect x="4" y="4" width="8" height="8" rx="1" fill="currentColor" />,
  pause: <path d="M5.500 4v8M10.500 4v8" />,
  play: <path d="M5 3.500l7 4.500-7 4.500z" />,
  clock: (
    <>
      <circle cx="8" cy="8" r="5.500" />
      <path d="M8 5v3l2 1.500" />
    </>
  ),
  send: <path d="M8 13V3.500M4 7l4-4 4 4" />,
  close: <path d="M4 4l8 8M12 4l-8 8" />,
  panel: <path d="M2.500 3.500h11v9h-11zM9.500 3.500v9" />,
  moon: <path d="M13 9.500A5.500 5.500 0 116.500 3a4.500 4.500 0 006.500 6.500z" />,
  ticket: <path d="M2 5.500h12v2a1 1 0 000 2v2H2v-2a1 1 0 000-2zM9.500 5.500v6" />,
  help: <path d="M5.800 6.200a2.200 2.200 0 113 2c-.6.300-.8.700-.8 1.300M8 12v.1" />,
  more: <path d="M4 6l4 4 4-4" />,
  reply: <path d="M6.500 4L3 7.500 6.500 11M3 7.500h6a4 4 0 014 4V12" />,
  edit: <path d="M3.500 12.500l.6-2.600 6.600-6.600 2 2-6.600 6.600zM9.500 4.500l2 2" />,
  trash: <path d="M3.500 4.500h9M6.500 4.500V3h3v1.500M4.800 4.500l.6 8.500h5.200l.6-8.500" />,
  down: <path d="M8 3v9.500M4 9l4 4 4-4" />,
  bell: <path d="M4 11.500h8l-1-1.800V7a3 3 0 00-6 0v2.700zM7 13.500h2" />,
  mute: <path d="M4 11.500h8l-1-1.800V7a3 3 0 00-6 0v2.700zM7 13.500h2M3 3l10 10" />,
  copy: <path d="M6 5.500h6.500v8H6zM10 5.500v-3H3.500v8H6" />,
  calls: <path d="M3.500 4.500h.1M3.500 8h.1M3.500 11.500h.1M6.500 4.500h6M6.500 8h6M6.500 11.500h6" />,
  crew: <path d="M8 4.500a1.500 1.500 0 10.100 0M4 9.500a1.500 1.500 0 10.100 0M12 9.500a1.500 1.500 0 10.100 0" />,
  plus: <path d="M8 3.500v9M3.500 8h9" />,
} as const;

/** Names of the icons. */
export type IconName = keyof typeof ICONS;

/** An icon, hidden from screen readers. */
export function Icon(props: { readonly name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      {ICONS[props.name]}
    </svg>
  );
}
