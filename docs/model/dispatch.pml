/*
 * The dispatch protocol of lancemaster: two jobs, two backends, two changes of leader, one of which may
 * be the restore of an older journal. README.md says what is modelled, what is left out, and how to run it.
 *
 * The model is one process, and each of its steps is one event of the real system: a journal command, a
 * step of an attempt to send, a message that arrives, a restart, an operator's word. What may happen at
 * any moment is enabled at any moment; what is late simply happens later, what is lost never happens, and
 * an answer or a report that exists may be read at any later time, any number of times.
 *
 * What a run is about it reads from the environment variable MODEL, words separated by spaces, so that one
 * verifier, compiled once, serves for all of them: see "switches" below.
 */

/* ---- switches */

hidden byte terms = 3;      /* terms=N: leaders in a row; the last of them may come with a restore */
hidden byte restart_bound = 2; /* restarts=N: of backend processes, besides those that re-opening asks for */
hidden byte same_name;      /* both jobs are of one index name: the second waits for the first one's fence */
hidden byte checks_epoch;   /* a backend refuses a call that names another process epoch than its own */
hidden byte no_restore;

/* Guards that are taken out. */
hidden byte no_mark_check, no_slot_check, no_latch, no_recheck_term, no_recheck_record, no_window, no_window_after_dial,
            ambiguous_sends, no_sends_table, no_term_barrier, no_settle_barrier, anybody_concludes, no_own_record,
            no_report_match, one_heartbeat, no_after_send_ended, no_inherited_wait, no_force_wait,
            no_quarantine, no_quarantine_pending, no_quarantine_running, no_quarantine_pause, no_id_jump, no_incarnation,
            no_masters_stopped, no_backends_restarted;

/* What the environment is trusted with, taken away. */
hidden byte proxy, refused_may_run;

/* What is asked to be reachable: the run must fail. */
hidden byte reach;
/* What each number asks is said in run.sh. */
#define R_COMMITTED        1
#define R_NOT_COMMITTED    2
#define R_UNKNOWN          3
#define R_NOT_ENQUEUED     4
#define R_SLOT_BY_EPOCHS   5
#define R_LATER_LEADER     6
#define R_REOPENED_SEND    7
#define R_BOTH_WORK        8
#define R_DEPOSED_SEND     9
#define R_LOST_SEND        10
#define R_INHERITED_BY_EPOCHS 11
#define R_OWNER_RETURNS    12
#define REACHED(what, holds) assert(!(reach == what && (holds)))

#define SLOTS    1 /* dispatch.max_inflight_per_backend */
#define NOBODY   4
#define JOB(a)   ((a) >> 1) /* attempts 0 and 1 are of job 0, 2 and 3 of job 1; each is one invocation id */

/* ---- the replicated journal's state */

#define NONE          0
#define PENDING       1
#define RUNNING       2
#define COMMITTED     3
#define NOT_COMMITTED 4
#define UNKNOWN       5
#define TERMINAL(s)   ((s) >= COMMITTED)

byte state[2];
byte invocation[2] = NOBODY; /* the attempt that made the job RUNNING: it stands for the dispatch's identity */
bit  fence[2];
bit  slot[2];
bit  owed[2];                /* a refresh is due, or under way */
byte admitted;               /* the next job's id */
bit  quarantined;

/* ---- masters. Two nodes, called ME, which leads the newest term, and OTHER. */

#define ME    0
#define OTHER 1
#define OLD   2 /* any master of the incarnation before the restore */
#define GONE  3 /* a process that has ended, and its memory with it */
byte term = 1;
bit  leads = 1;   /* ME is up, and knows of no newer term */
bit  otherleads;  /* OTHER does not know yet that its own, older term is over */
bit  oldworld;    /* masters of the incarnation before the restore still run */
bit  restored;

/* What heartbeats of this term, asked for after the job's send ended, have shown of its backend:
 * nothing, the process that is there now, one that has been replaced since, or two different ones. */
#define PRESENT  1
#define REPLACED 2
#define TWO      3
byte after[2];
byte anytime[2]; /* used with no_after_send_ended only: by backend, of heartbeats asked for at any time of the term */

/* ---- attempts: an invocation, its latch, its connection, its call, its worker */

#define FREE     0
#define PREPARE  1 /* the job was read PENDING and a backend chosen; nothing is journaled */
#define WON      2 /* MarkRunning is certainly applied */
#define DIALLING 3 /* used with no_window_after_dial only */
#define DIALLED  4 /* a fresh connection, bound to the process that accepted it */
#define CHECKED  5 /* the recheck of term, record and window has passed */
#define WRITTEN  6 /* the latch is SENT and the call on its way; its answer is awaited */
#define ENDED    7 /* nothing more is written */
#define UNSENT(a) (phase[a] >= WON && phase[a] <= CHECKED)
byte phase[4];

#define OPEN   0
#define CLOSED 1
bit  latch[4];     /* of an attempt that is UNSENT; its third state, SENT, is the phase WRITTEN */
byte owner[4];
bit  current[4];   /* begun in the newest term */
bit  backend[4];
bit  stale[4];     /* be_process_epoch is not that of the process at the address */
bit  connected[4]; /* to the process at the address */
bit  window[4];    /* dispatch.send_window has passed since MarkRunning was proposed */
bit  queued[4];    /* MarkRunning is in the log, neither applied nor dropped yet */
bit  doubtful[4];  /* the owner does not know whether it was, or will be, applied */
bit  applied[4];   /* in some journal, perhaps one that a restore has lost */

#define NOT_ENQUEUED 1
#define UNTRUSTED    2
byte concludes[4]; /* what the owner knows and has not journaled yet */

#define UNBORN  0
#define ON_WAY  1
#define REFUSED 2
#define DEAD    3  /* lost before it was read, or its worker went with the backend's process */
#define WORKS   4  /* accepted; a worker that may commit */
#define LINGERS 5  /* it has done its work and said how; its process is still there */
#define REAPED  6
#define ALIVE(a) (call[a] == WORKS || call[a] == LINGERS)
#define MAY_LIVE(a) (call[a] == ON_WAY || ALIVE(a) || (call[a] == REFUSED && refused_may_run))
byte call[4];
bit  accepted[4];

#define OK 1       /* it has committed */
#define NO 2       /* it has not, and never will: PRE_INVOCATION_*, or a conflict */
byte result[4];    /* reported. An error that leaves the outcome open is a report that never comes. */

/* ---- backends. Epochs are relative: all that counts is whether one is the present process's. */

byte restarts;
bit  renewed[2];   /* restarted since the masters of the old incarnation stopped */

/* ---- the oracle's own memory */

bit  sent[2];      /* a call of the job was written */
bit  lost[2];      /* the restored journal does not have the job */
bit  oldpending[2];/* the journal that the restore replaced had the job PENDING */
#define RELEASED_SLOT 1
#define FORCED        2
byte operator[2];  /* what an operator has released of a job of which something may still live */

/* The invariants. The name is what pan prints, and what leaves one out, to see what else breaks. */
hidden byte ONE_SEND, OUTCOME_TRUE, FENCE_HELD, SLOT_HELD, WITHIN_CAP, ONE_WORKER_PER_NAME, STATES_GO_ON,
            NOTHING_VANISHES, ID_GIVEN_ONCE;
#define INVARIANT(name, holds) assert((holds) || name)

/* Nothing is promised of the slot and the fence of a job that an operator has released, nor, until
 * re-opening, of a journal that has lost its end. */
#define EXCUSED(j) (operator[j] || quarantined)

#define SLOT_ON(j, b) (slot[j] && backend[invocation[j]] == (b))
#define HOLDS(b) (SLOT_ON(0, b) + SLOT_ON(1, b))
#define LIVES(j) (ALIVE(2*(j)) || ALIVE(2*(j)+1))
#define LIVES_ON(j, b) ((ALIVE(2*(j)) && backend[2*(j)] == (b)) || (ALIVE(2*(j)+1) && backend[2*(j)+1] == (b)))
#define WORKS_FOR(j) (call[2*(j)] == WORKS || call[2*(j)+1] == WORKS)

inline check_workers() {
	INVARIANT(SLOT_HELD, !LIVES(0) || slot[0] || EXCUSED(0));
	INVARIANT(SLOT_HELD, !LIVES(1) || slot[1] || EXCUSED(1));
	INVARIANT(WITHIN_CAP, !(LIVES_ON(0, 0) && LIVES_ON(1, 0)) || EXCUSED(0) || EXCUSED(1));
	INVARIANT(WITHIN_CAP, !(LIVES_ON(0, 1) && LIVES_ON(1, 1)) || EXCUSED(0) || EXCUSED(1));
	INVARIANT(ONE_WORKER_PER_NAME, !same_name || !(WORKS_FOR(0) && WORKS_FOR(1)) || operator[0] == FORCED);
	REACHED(R_BOTH_WORK, WORKS_FOR(0) && WORKS_FOR(1))
}

/* ---- pieces of events */

inline forget(a) {
	phase[a] = FREE; latch[a] = OPEN; owner[a] = ME; current[a] = 0; backend[a] = 0; stale[a] = 0; connected[a] = 0;
	window[a] = 0; queued[a] = 0; doubtful[a] = 0; applied[a] = 0; concludes[a] = 0; call[a] = UNBORN; accepted[a] = 0;
	result[a] = 0
}

inline enter(j, s) {
	INVARIANT(STATES_GO_ON, (state[j] == PENDING && (s == RUNNING || s == NOT_COMMITTED)) ||
		(state[j] == RUNNING && TERMINAL(s)));
	state[j] = s;
	REACHED(R_COMMITTED, s == COMMITTED);
	REACHED(R_NOT_COMMITTED, s == NOT_COMMITTED);
	REACHED(R_UNKNOWN, s == UNKNOWN)
}

inline release_fence(j) {
	INVARIANT(FENCE_HELD, quarantined || !WORKS_FOR(j));
	fence[j] = 0
}


#define IS_PENDING(j) (no_mark_check || state[j] == PENDING)
#define HAS_ROOM(b) (no_slot_check || HOLDS(b) < SLOTS)
#define APPLIES(a) (IS_PENDING(JOB(a)) && HAS_ROOM(backend[a]))

inline mark_running(a) {
	enter(JOB(a), RUNNING);
	invocation[JOB(a)] = a; slot[JOB(a)] = 1; after[JOB(a)] = 0; applied[a] = 1
}

inline complete_not_enqueued(j) {
	INVARIANT(OUTCOME_TRUE, quarantined || !(accepted[2*j] || accepted[2*j+1]));
	enter(j, NOT_COMMITTED);
	REACHED(R_NOT_ENQUEUED, true);
	release_fence(j);
	slot[j] = 0
}

/* Takes the latch, so that nothing is written. Whoever owns it may conclude so at once. */
inline close(a) {
	latch[a] = CLOSED; concludes[a] = NOT_ENQUEUED;
	phase[a] = (no_latch -> phase[a] : ENDED)
}

/* The owner's process has ended: what it wrote stays, what it knew does not. */
inline lose(a, n) {
	if
	:: phase[a] != FREE && owner[a] == n -> phase[a] = ENDED; owner[a] = GONE; doubtful[a] = 0; concludes[a] = 0
	:: else
	fi
}

/* The owner leads anew: what it began in its former term it has ended. */
inline end_of_term(a, n) {
	if
	:: phase[a] != FREE && owner[a] == n && phase[a] == PREPARE -> forget(a)
	:: owner[a] == n && UNSENT(a) && latch[a] == OPEN -> close(a)
	:: else
	fi;
	current[a] = 0
}

inline swap(a) {
	if
	:: phase[a] != FREE && owner[a] <= OTHER -> owner[a] = 1 - owner[a]
	:: else
	fi
}

inline elected(n) {
	d_step {
		end_of_term(0, n); end_of_term(1, n); end_of_term(2, n); end_of_term(3, n);
		if
		:: n == OTHER -> swap(0); swap(1); swap(2); swap(3); otherleads = leads
		:: else
		fi;
		term++; leads = 1; after[0] = 0; after[1] = 0; anytime[0] = 0; anytime[1] = 0;
		INVARIANT(NOTHING_VANISHES, (admitted == 0 || state[0] != NONE || lost[0]) && (admitted < 2 || state[1] != NONE || lost[1]))
	}
}

/* What the log of the old term still holds is applied before the new leader's barrier, or never. */
inline flush(a) {
	if
	:: queued[a] && !no_term_barrier && APPLIES(a) -> queued[a] = 0; mark_running(a)
	:: queued[a] && !no_term_barrier -> queued[a] = 0
	:: !queued[a] || no_term_barrier
	fi
}

inline write(a) {
	INVARIANT(ONE_SEND, !sent[JOB(a)]);
	sent[JOB(a)] = 1; phase[a] = WRITTEN;
	REACHED(R_REOPENED_SEND, restored && !quarantined && owner[a] == ME);
	REACHED(R_DEPOSED_SEND, owner[a] == OTHER);
	REACHED(R_LOST_SEND, owner[a] == OLD && lost[JOB(a)]);
	if
	:: connected[a] -> call[a] = ON_WAY
	:: else -> call[a] = DEAD
	fi
}

/* Everything of a backend's process goes with it: its workers, its connections, the calls it has not read. */
inline cut_off(a, b) {
	if
	:: phase[a] != FREE && backend[a] == b ->
		stale[a] = 1;
		connected[a] = connected[a] && proxy;
		if
		:: ALIVE(a) || (call[a] == ON_WAY && !proxy) -> call[a] = DEAD
		:: else
		fi
	:: else
	fi
}
inline replaced(j, b) {
	if
	:: SLOT_ON(j, b) && after[j] == PRESENT -> after[j] = REPLACED
	:: else
	fi
}

/* ---- the possible-live sweep */

#define WAITED(a) (no_inherited_wait || window[a])
/* This process's own send of this term has ended when its attempt has; an inherited one when the
 * longest window has passed since this term's barrier, which is after its own. */
#define OWN(a) (owner[a] == ME && current[a])
#define SEND_ENDED(a) ((OWN(a) && phase[a] == ENDED) || (!OWN(a) && WAITED(a)))

#define SHOWS(j) ((one_heartbeat -> stale[invocation[j]] : after[j] == REPLACED) -> TWO : PRESENT)
#define NEWS(j, b) (SLOT_ON(j, b) && SEND_ENDED(invocation[j]) && (after[j] == 0 || after[j] == REPLACED))
inline notes(j, b) {
	if
	:: NEWS(j, b) -> after[j] = SHOWS(j)
	:: else
	fi
}
#define NEWS_ANYTIME(b) (no_after_send_ended && (anytime[b] == 0 || anytime[b] == REPLACED))
#define PROCESS_GONE(j) (no_after_send_ended -> SEND_ENDED(invocation[j]) && anytime[backend[invocation[j]]] == TWO : after[j] == TWO)

/* ---- restore of an older journal, and what Quarantine makes of it */

inline back(j) {
	if
	:: true
	:: state[j] != NONE && (j == 1 || state[1] == NONE) ->
		state[j] = NONE; invocation[j] = NOBODY; fence[j] = 0; slot[j] = 0; owed[j] = 0; lost[j] = 1;
		admitted = (no_id_jump -> j : admitted)
	:: state[j] > PENDING -> state[j] = PENDING; invocation[j] = NOBODY; fence[j] = 1; slot[j] = 0; owed[j] = 0
	:: state[j] > RUNNING && invocation[j] != NOBODY -> state[j] = RUNNING; fence[j] = 1; slot[j] = 1; owed[j] = 0
	fi
}
inline quarantine(j) {
	if
	:: state[j] == PENDING && !no_quarantine_pending -> state[j] = UNKNOWN
	:: state[j] == RUNNING && !no_quarantine_running -> state[j] = UNKNOWN
	:: else
	fi;
	quarantined = 1
}
inline into_old_world(a) {
	queued[a] = 0; current[a] = 0;
	if
	:: phase[a] != FREE && owner[a] != GONE -> owner[a] = OLD; doubtful[a] = 0; concludes[a] = 0
	:: else
	fi
}

/* ---- keeping one state for what is the same: what can matter no more is cleared */

#define IS_MOOT(j)    (state[j] != PENDING && !no_mark_check)
#define KEEP_PREPARED ((ambiguous_sends && no_recheck_record) || no_mark_check)
#define KEEP_MOOT     no_own_record
#define KEEP_RESULT   (no_report_match && restored)
#define KEEP_STALE    one_heartbeat
#define CLOSED_JOB(j) (TERMINAL(state[j]) && !fence[j] && !slot[j])
inline tidy_attempt(a) {
	if
	:: phase[a] == FREE
	:: phase[a] != FREE ->
		if
		:: owner[a] == OLD && phase[a] == WRITTEN -> phase[a] = ENDED
		:: owner[a] == OTHER && phase[a] == PREPARE && !KEEP_PREPARED -> phase[a] = ENDED
		:: phase[a] == PREPARE && owner[a] != OLD && IS_MOOT(JOB(a)) && !KEEP_PREPARED -> phase[a] = ENDED
		:: else
		fi;
		if
		:: IS_MOOT(JOB(a)) -> queued[a] = 0
		:: else
		fi;
		/* The recheck will stop an attempt whose MarkRunning is not and will not be applied. */
		if
		:: UNSENT(a) && !applied[a] && !queued[a] && !no_recheck_record -> phase[a] = ENDED; concludes[a] = 0
		:: else
		fi;
		/* A conclusion that is moot, whoever finds it so and when. */
		if
		:: doubtful[a] && !queued[a] && (invocation[JOB(a)] == a || !KEEP_MOOT) -> doubtful[a] = 0
		:: else
		fi;
		if
		:: phase[a] == ENDED && concludes[a] && !doubtful[a] && !queued[a] &&
			((invocation[JOB(a)] != a && !KEEP_MOOT) || (invocation[JOB(a)] == a && TERMINAL(state[JOB(a)]) &&
				(!slot[JOB(a)] || concludes[a] == UNTRUSTED))) -> concludes[a] = 0
		:: else
		fi;
		if
		:: phase[a] == ENDED ->
			latch[a] = OPEN; connected[a] = 0;
			if
			:: concludes[a] == 0 && !doubtful[a] && !(OWN(a) && SLOT_ON(JOB(a), backend[a]) && invocation[JOB(a)] == a) ->
				owner[a] = GONE; current[a] = 0
			:: else
			fi
		:: else
		fi;
		if
		:: phase[a] == ENDED && call[a] == REFUSED && !refused_may_run -> call[a] = DEAD
		:: call[a] == REAPED && !(slot[JOB(a)] && invocation[JOB(a)] == a) -> call[a] = DEAD
		/* Nobody waits for the answer about a job that is closed. What an operator has released altogether
		 * is followed to its write, and no further. */
		:: phase[a] >= WRITTEN && CLOSED_JOB(JOB(a)) ->
			phase[a] = ENDED; concludes[a] = 0;
			if
			:: operator[JOB(a)] || !MAY_LIVE(a) -> call[a] = DEAD
			:: else
			fi
		:: else
		fi;
		if
		:: state[JOB(a)] != RUNNING && !KEEP_RESULT -> result[a] = 0; accepted[a] = 0
		:: else
		fi;
		if
		:: !UNSENT(a) && !(invocation[JOB(a)] == a && (slot[JOB(a)] || fence[JOB(a)])) -> window[a] = 0
		:: else
		fi;
		if
		:: call[a] > ON_WAY && !KEEP_STALE -> stale[a] = 0
		:: else
		fi;
		if
		:: phase[a] == ENDED && concludes[a] == 0 && !doubtful[a] && !queued[a] && !MAY_LIVE(a) && result[a] == 0 &&
			(invocation[JOB(a)] != a || CLOSED_JOB(JOB(a))) ->
			if
			:: invocation[JOB(a)] == a -> invocation[JOB(a)] = NOBODY
			:: else
			fi;
			forget(a)
		:: else
		fi
	fi
}
#define COULD_LIVE(a) (phase[a] != FREE && (UNSENT(a) || MAY_LIVE(a)))
inline tidy_job(j) {
	if
	:: !slot[j] -> after[j] = 0
	:: else
	fi;
	/* Of a resolved job it matters only that it is resolved. */
	if
	:: state[j] == COMMITTED && !fence[j] -> state[j] = NOT_COMMITTED
	:: state[j] == UNKNOWN && CLOSED_JOB(j) && phase[2*j] == FREE && phase[2*j+1] == FREE -> state[j] = NOT_COMMITTED
	:: else
	fi;
	if
	:: !COULD_LIVE(2*j) && !COULD_LIVE(2*j+1) -> operator[j] = 0
	:: else
	fi
}
#define ASKS_OTHER(a) (phase[a] != FREE && owner[a] == OTHER && phase[a] < WRITTEN)
inline tidy() {
	d_step {
		check_workers();
		tidy_attempt(0); tidy_attempt(1); tidy_attempt(2); tidy_attempt(3);
		tidy_job(0); tidy_job(1);
		if
		:: otherleads && !(ASKS_OTHER(0) || ASKS_OTHER(1) || ASKS_OTHER(2) || ASKS_OTHER(3)) -> otherleads = 0
		:: else
		fi
	}
}

/* ---- guards of events */

#define NAME_FREE(j) (!same_name || !fence[1 - (j)])
#define PAUSED (quarantined && !no_quarantine_pause)

#define HAS_SEND(j, n) ((phase[2*(j)] != FREE && owner[2*(j)] == (n)) || (phase[2*(j)+1] != FREE && owner[2*(j)+1] == (n)))
#define PREPARES(a) (phase[a] == PREPARE && owner[a] == ME)
#define TRYING(j) (PREPARES(2*(j)) || PREPARES(2*(j)+1) || (HAS_SEND(j, ME) && !no_sends_table))
#define ALL_FREE (phase[0] == FREE && phase[1] == FREE && phase[2] == FREE && phase[3] == FREE)
/* Of two free records the first is used, and of two backends that nothing tells apart. */
#define NEXT_FREE(a) (phase[a] == FREE && (((a) & 1) == 0 || phase[(a) - 1] != FREE))
#define DISTINCT(b) ((b) == 0 || !ALL_FREE || renewed[0] != renewed[1])

#define HEARD(a) (owner[a] == ME && current[a] && leads)
#define RUNS(a) (owner[a] <= OTHER || (owner[a] == OLD && oldworld))

#define TERM_SHOWS(a) (no_recheck_term || owner[a] == OLD || (owner[a] == OTHER && otherleads) || HEARD(a))
/* A deposed leader's state may be as old as it likes, but it shows nothing that was never applied. */
#define RECORD_SHOWS(a) (no_recheck_record || (applied[a] && \
	(!HEARD(a) || (state[JOB(a)] == RUNNING && invocation[JOB(a)] == a))))
#define IN_WINDOW(a) (no_window || no_window_after_dial || !window[a])
#define TAKES_LATCH(a) (no_latch || latch[a] == OPEN)
#define CERTAIN(a) (no_settle_barrier || !doubtful[a])

/* A report names job, dispatch revision and invocation, and proves it with the secret. */
#define MATCHES(a) (invocation[JOB(a)] == a || (no_report_match && invocation[JOB(a)] != NOBODY))
#define OWN_RECORD(a) (no_own_record || invocation[JOB(a)] == a)

#define TAKES(a) (!checks_epoch || !stale[a])

#define MASTERS_STOPPED (no_masters_stopped || !oldworld)
#define RENEWS(b) (quarantined && !renewed[b] && MASTERS_STOPPED)
#define BACKENDS_RESTARTED (no_backends_restarted || (renewed[0] && renewed[1]))

/* ---- the events */

#define JOB_EVENTS(j) \
	/* Admit. */ \
	:: d_step { leads && !PAUSED && admitted == j && state[j] == NONE && NAME_FREE(j) -> \
		INVARIANT(ID_GIVEN_ONCE, !lost[j]); \
		admitted++; state[j] = PENDING; fence[j] = 1; sent[j] = 0 } \
	/* Cancel; RejectBeforeDispatch does the same. */ \
	:: d_step { leads && state[j] == PENDING -> enter(j, NOT_COMMITTED); release_fence(j) } \
	/* A refresh that was owed is done. */ \
	:: d_step { leads && owed[j] -> owed[j] = 0; release_fence(j) } \
	/* The execute deadline has passed, or a leader change makes RUNNING UNKNOWN. What this process has not \
	 * sent it closes, and what it knows it concludes. */ \
	:: d_step { leads && state[j] == RUNNING && owner[invocation[j]] == ME && UNSENT(invocation[j]) && \
		latch[invocation[j]] == OPEN -> close(invocation[j]) } \
	:: d_step { leads && state[j] == RUNNING && !(owner[invocation[j]] == ME && \
		(UNSENT(invocation[j]) || concludes[invocation[j]])) -> enter(j, UNKNOWN) } \
	:: d_step { anybody_concludes && leads && state[j] == RUNNING && owner[invocation[j]] != ME -> complete_not_enqueued(j) } \
	/* The possible-live sweep. */ \
	:: d_step { leads && slot[j] && PROCESS_GONE(j) -> REACHED(R_SLOT_BY_EPOCHS, OWN(invocation[j])); \
		REACHED(R_INHERITED_BY_EPOCHS, !OWN(invocation[j])); slot[j] = 0 } \
	/* ReleaseSlot; ForceRelease. */ \
	:: d_step { leads && slot[j] && TERMINAL(state[j]) -> operator[j] = (operator[j] == FORCED -> FORCED : RELEASED_SLOT); \
		slot[j] = 0 } \
	:: d_step { leads && state[j] == UNKNOWN && fence[j] && (invocation[j] == NOBODY || window[invocation[j]] || no_force_wait) -> \
		operator[j] = FORCED; fence[j] = 0; slot[j] = 0 }

/* An attempt begins; the epoch that it names is the present process's. */
#define BEGINS(a, b) \
	:: d_step { leads && !PAUSED && state[JOB(a)] == PENDING && NEXT_FREE(a) && !TRYING(JOB(a)) && HOLDS(b) < SLOTS && DISTINCT(b) -> \
		phase[a] = PREPARE; owner[a] = ME; current[a] = 1; backend[a] = b } \
	/* The leader of the old world goes on with what its own journal has PENDING. */ \
	:: d_step { oldworld && oldpending[JOB(a)] && NEXT_FREE(a) && !HAS_SEND(JOB(a), OLD) && DISTINCT(b) -> \
		phase[a] = PREPARE; owner[a] = OLD; backend[a] = b }

/* Nobody knows whether MarkRunning is or will be applied: it is not sent. */
inline in_doubt(a) {
	if
	:: ambiguous_sends -> phase[a] = WON
	:: else -> phase[a] = ENDED; doubtful[a] = 1; concludes[a] = NOT_ENQUEUED
	fi
}




#define ATTEMPT_EVENTS(a) \
	/* MarkRunning is applied and the owner knows; it is applied and the answer is lost; it is in the log. */ \
	:: d_step { phase[a] == PREPARE && HEARD(a) && APPLIES(a) -> mark_running(a); phase[a] = WON } \
	:: d_step { phase[a] == PREPARE && HEARD(a) && APPLIES(a) -> mark_running(a); in_doubt(a) } \
	:: d_step { phase[a] == PREPARE && HEARD(a) -> queued[a] = 1; in_doubt(a) } \
	:: d_step { queued[a] && APPLIES(a) -> queued[a] = 0; mark_running(a) } \
	:: d_step { queued[a] -> queued[a] = 0 } \
	/* It is refused, not appended, or the preparation has failed. */ \
	:: d_step { phase[a] == PREPARE && owner[a] <= OTHER -> forget(a) } \
	:: d_step { ambiguous_sends && phase[a] == PREPARE && owner[a] == OTHER -> phase[a] = WON } \
	:: d_step { no_incarnation && phase[a] == PREPARE && owner[a] == OLD && oldworld && leads && APPLIES(a) -> \
		mark_running(a); phase[a] = WON } \
	:: d_step { phase[a] == PREPARE && owner[a] == OLD && oldworld && oldpending[JOB(a)] -> \
		oldpending[JOB(a)] = 0; applied[a] = 1; phase[a] = WON } \
	/* Time passes. */ \
	:: d_step { !window[a] && (UNSENT(a) || (phase[a] != FREE && invocation[JOB(a)] == a && (slot[JOB(a)] || fence[JOB(a)]))) -> \
		window[a] = 1 } \
	:: d_step { phase[a] == WON && RUNS(a) && !no_window_after_dial -> connected[a] = 1; phase[a] = DIALLED } \
	:: d_step { phase[a] == WON && RUNS(a) && no_window_after_dial && !window[a] -> phase[a] = DIALLING } \
	:: d_step { phase[a] == DIALLING && RUNS(a) -> connected[a] = 1; phase[a] = DIALLED } \
	/* The dial fails, the recheck does, the term's end has come to the attempt. */ \
	:: d_step { UNSENT(a) && RUNS(a) && latch[a] == OPEN -> close(a) } \
	:: d_step { phase[a] == DIALLED && RUNS(a) && TERM_SHOWS(a) && RECORD_SHOWS(a) && IN_WINDOW(a) -> phase[a] = CHECKED } \
	/* The latch is taken and the call written. A process that stops in between is a call that arrives late. */ \
	:: d_step { phase[a] == CHECKED && RUNS(a) && TAKES_LATCH(a) -> write(a) } \
	/* A complete refusal; OK; nothing that can be trusted; the end of the term cuts the wait short. */ \
	:: d_step { phase[a] == WRITTEN && RUNS(a) && call[a] == REFUSED -> phase[a] = ENDED; concludes[a] = NOT_ENQUEUED } \
	:: d_step { phase[a] == WRITTEN && RUNS(a) && (call[a] >= WORKS || accepted[a] || !HEARD(a)) -> phase[a] = ENDED; concludes[a] = 0 } \
	:: d_step { phase[a] == WRITTEN && RUNS(a) -> phase[a] = ENDED; concludes[a] = UNTRUSTED } \
	/* A barrier makes certain what became of a MarkRunning in doubt. */ \
	:: d_step { leads && owner[a] == ME && doubtful[a] && queued[a] && APPLIES(a) -> mark_running(a); queued[a] = 0; doubtful[a] = 0 } \
	:: d_step { leads && owner[a] == ME && doubtful[a] -> queued[a] = 0; doubtful[a] = 0 } \
	/* The owner concludes what it knows of its own dispatch, or finds it moot. */ \
	:: d_step { leads && owner[a] == ME && concludes[a] == NOT_ENQUEUED && OWN_RECORD(a) && MATCHES(a) && \
		state[JOB(a)] == RUNNING -> REACHED(R_OWNER_RETURNS, !current[a]); \
		concludes[a] = 0; doubtful[a] = 0; complete_not_enqueued(JOB(a)) } \
	:: d_step { leads && owner[a] == ME && concludes[a] == NOT_ENQUEUED && OWN_RECORD(a) && MATCHES(a) && \
		TERMINAL(state[JOB(a)]) && slot[JOB(a)] -> concludes[a] = 0; doubtful[a] = 0; slot[JOB(a)] = 0 } \
	:: d_step { leads && owner[a] == ME && concludes[a] == UNTRUSTED && OWN_RECORD(a) && MATCHES(a) && \
		state[JOB(a)] == RUNNING -> concludes[a] = 0; enter(JOB(a), UNKNOWN) } \
	:: d_step { leads && owner[a] == ME && concludes[a] && CERTAIN(a) && (invocation[JOB(a)] != a || \
		(TERMINAL(state[JOB(a)]) && (!slot[JOB(a)] || concludes[a] == UNTRUSTED))) -> concludes[a] = 0; doubtful[a] = 0 } \
	/* The call arrives. A backend may always refuse: a passed deadline, an epoch, a full queue. */ \
	:: d_step { call[a] == ON_WAY && TAKES(a) -> \
		call[a] = WORKS; accepted[a] = 1; \
		INVARIANT(OUTCOME_TRUE, state[JOB(a)] == RUNNING || state[JOB(a)] == UNKNOWN || quarantined); \
		INVARIANT(FENCE_HELD, fence[JOB(a)] || operator[JOB(a)] == FORCED || quarantined) } \
	:: d_step { call[a] == ON_WAY -> call[a] = REFUSED } \
	:: d_step { refused_may_run && call[a] == REFUSED -> call[a] = ON_WAY } \
	/* The worker ends, its report is under way or never comes; it is reaped. */ \
	:: d_step { call[a] == WORKS -> call[a] = LINGERS; result[a] = OK } \
	:: d_step { call[a] == WORKS -> call[a] = LINGERS; result[a] = NO } \
	:: d_step { call[a] == WORKS -> call[a] = LINGERS } \
	:: d_step { call[a] == LINGERS -> call[a] = REAPED } \
	/* A report's result and its proof: each may come first, late, or not at all. */ \
	:: d_step { leads && result[a] == OK && MATCHES(a) && state[JOB(a)] == RUNNING -> \
		INVARIANT(OUTCOME_TRUE, result[invocation[JOB(a)]] == OK); \
		REACHED(R_LATER_LEADER, !OWN(a) && !restored); enter(JOB(a), COMMITTED); owed[JOB(a)] = 1 } \
	:: d_step { leads && result[a] == NO && MATCHES(a) && state[JOB(a)] == RUNNING -> \
		INVARIANT(OUTCOME_TRUE, result[invocation[JOB(a)]] == NO); enter(JOB(a), NOT_COMMITTED); release_fence(JOB(a)) } \
	:: d_step { leads && result[a] == NO && MATCHES(a) && state[JOB(a)] == RUNNING -> \
		INVARIANT(OUTCOME_TRUE, result[invocation[JOB(a)]] == NO); enter(JOB(a), NOT_COMMITTED); owed[JOB(a)] = 1 } \
	:: d_step { leads && call[a] == REAPED && MATCHES(a) && slot[JOB(a)] -> slot[JOB(a)] = 0 }

inline notes_anytime(b) {
	anytime[b] = (no_after_send_ended -> (anytime[b] == REPLACED -> TWO : (anytime[b] == 0 -> PRESENT : anytime[b])) : 0)
}
inline replaced_anytime(b) {
	anytime[b] = (anytime[b] == PRESENT -> REPLACED : anytime[b])
}

#define BACKEND_EVENTS(b) \
	/* A heartbeat is asked for and answered. */ \
	:: d_step { leads && (NEWS(0, b) || NEWS(1, b) || NEWS_ANYTIME(b)) -> notes_anytime(b); notes(0, b); notes(1, b) } \
	/* Another process takes the address. */ \
	:: d_step { restarts < restart_bound || RENEWS(b) -> \
		if :: RENEWS(b) -> renewed[b] = 1 :: else -> restarts++ fi; \
		replaced(0, b); replaced(1, b); replaced_anytime(b); \
		cut_off(0, b); cut_off(1, b); cut_off(2, b); cut_off(3, b) }

#define NODE_EVENTS \
	/* The leader's process ends, or it hears of a newer term before anybody has won one; the other's too. */ \
	:: d_step { lose(0, ME); lose(1, ME); lose(2, ME); lose(3, ME); leads = 0 } \
	:: d_step { leads -> leads = 0 } \
	:: d_step { lose(0, OTHER); lose(1, OTHER); lose(2, OTHER); lose(3, OTHER); otherleads = 0 } \
	:: d_step { otherleads -> otherleads = 0 } \
	/* One of the two is elected and passes the barrier of its term. */ \
	:: term < terms -> flush(0); flush(1); flush(2); flush(3); elected(ME) \
	:: term < terms -> flush(0); flush(1); flush(2); flush(3); elected(OTHER)

#define RESTORE_EVENTS \
	/* An older journal is restored, under a new incarnation; the old masters may not know. */ \
	:: term < terms && !restored && !no_restore -> \
		d_step { \
			restored = 1; oldworld = 1; otherleads = 0; leads = 1; term++; \
			oldpending[0] = (state[0] == PENDING); oldpending[1] = (state[1] == PENDING); \
			into_old_world(0); into_old_world(1); into_old_world(2); into_old_world(3); } \
		/* Where the second job of a name is there, the first is resolved, and has moved on no further. */ \
		back(1); if :: !same_name || state[1] == NONE -> back(0) :: same_name fi; \
		d_step { after[0] = 0; after[1] = 0; if :: !no_quarantine -> quarantine(0); quarantine(1) :: else fi } \
	:: d_step { oldworld -> oldworld = 0; oldpending[0] = 0; oldpending[1] = 0; \
		lose(0, OLD); lose(1, OLD); lose(2, OLD); lose(3, OLD) } \
	/* Reopen, after the operator has confirmed both conditions. */ \
	:: d_step { quarantined && leads && MASTERS_STOPPED && BACKENDS_RESTARTED -> \
		quarantined = 0; renewed[0] = 0; renewed[1] = 0 }

c_decl {
	\#include <stdio.h>
	\#include <stdlib.h>
	\#include <string.h>
}

c_code {
static void
read_switches(void)
{
	static const struct { const char *name; unsigned char *value; } switches[] = {
		{"same_name", &same_name}, {"checks_epoch", &checks_epoch}, {"no_restore", &no_restore}, {"no_mark_check", &no_mark_check},
		{"no_slot_check", &no_slot_check}, {"no_latch", &no_latch}, {"no_recheck_term", &no_recheck_term},
		{"no_recheck_record", &no_recheck_record}, {"no_window", &no_window}, {"no_window_after_dial", &no_window_after_dial},
		{"ambiguous_sends", &ambiguous_sends}, {"no_sends_table", &no_sends_table}, {"no_term_barrier", &no_term_barrier},
		{"no_settle_barrier", &no_settle_barrier}, {"anybody_concludes", &anybody_concludes}, {"no_own_record", &no_own_record},
		{"no_report_match", &no_report_match}, {"one_heartbeat", &one_heartbeat}, {"no_after_send_ended", &no_after_send_ended},
		{"no_inherited_wait", &no_inherited_wait}, {"no_force_wait", &no_force_wait}, {"no_quarantine", &no_quarantine},
		{"no_quarantine_pending", &no_quarantine_pending}, {"no_quarantine_running", &no_quarantine_running},
		{"no_quarantine_pause", &no_quarantine_pause}, {"no_id_jump", &no_id_jump}, {"no_incarnation", &no_incarnation},
		{"no_masters_stopped", &no_masters_stopped}, {"no_backends_restarted", &no_backends_restarted}, {"proxy", &proxy},
		{"refused_may_run", &refused_may_run}, {"ONE_SEND", &ONE_SEND}, {"OUTCOME_TRUE", &OUTCOME_TRUE}, {"FENCE_HELD", &FENCE_HELD},
		{"SLOT_HELD", &SLOT_HELD}, {"WITHIN_CAP", &WITHIN_CAP}, {"ONE_WORKER_PER_NAME", &ONE_WORKER_PER_NAME},
		{"STATES_GO_ON", &STATES_GO_ON}, {"NOTHING_VANISHES", &NOTHING_VANISHES}, {"ID_GIVEN_ONCE", &ID_GIVEN_ONCE},
	};
	char words[1024] = "", *word;
	if (getenv("MODEL")) snprintf(words, sizeof words, "%s", getenv("MODEL"));
	for (word = strtok(words, " "); word; word = strtok(0, " ")) {
		unsigned i, known = 0;
		if (!strncmp(word, "terms=", 6)) { terms = atoi(word + 6); continue; }
		if (!strncmp(word, "restarts=", 9)) { restart_bound = atoi(word + 9); continue; }
		if (!strncmp(word, "reach=", 6)) { reach = atoi(word + 6); continue; }
		for (i = 0; i < sizeof switches / sizeof *switches; i++)
			if (!strcmp(word, switches[i].name)) { *switches[i].value = 1; known = 1; }
		if (!known) { fprintf(stderr, "model: no switch is called %s\n", word); exit(2); }
	}
}
}

active proctype system() {
	c_code { read_switches(); };
	do
	:: atomic {
		if
		JOB_EVENTS(0)
		JOB_EVENTS(1)
			BEGINS(0, 0) BEGINS(0, 1)
		BEGINS(1, 0) BEGINS(1, 1)
		BEGINS(2, 0) BEGINS(2, 1)
		BEGINS(3, 0) BEGINS(3, 1)
		ATTEMPT_EVENTS(0)
		ATTEMPT_EVENTS(1)
		ATTEMPT_EVENTS(2)
		ATTEMPT_EVENTS(3)
		BACKEND_EVENTS(0)
		BACKEND_EVENTS(1)
		NODE_EVENTS
		RESTORE_EVENTS
		fi;
		tidy()
	}
	od
}
