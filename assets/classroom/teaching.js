// Whether this browser leads a class. The page needs this file alone, without the rest of the classroom.

import { keptText } from "../shared/memory.js";

export const KEPT = "specdec.class.lecturer";

export const isTeaching = () => keptText(KEPT) !== null;
