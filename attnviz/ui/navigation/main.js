/** What the browser's history and links do; runs before Streamlit's client starts. */

import { keepOneEntryPerChoice } from "./history.js";
import { openLinksInPlace } from "./links.js";
import { continueLastVisit } from "./return.js";

continueLastVisit(window);
keepOneEntryPerChoice(window);
openLinksInPlace(window);
