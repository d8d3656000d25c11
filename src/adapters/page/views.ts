export { AuditView } from './audit/audit.tsx';
export { CrewBlock, CrewDashboard } from './crew/crew.tsx';
export { ReviewBlock } from './floor/review.tsx';
