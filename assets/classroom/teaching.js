// Whether this browser leads a class. This is known before any other script of the classroom is fetched.

import { kept } from "../shared/memory.js";

export const KEPT = "specdec.class.lecturer";

export const isTeaching = () => kept(KEPT) !== null;
