//! `inspan run` and `inspan resume`: drives one turn and shows it.

use std::{
    cmp::Reverse,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use inspan_core::{
    Entry, Event, State,
    event::{PermissionAsked, Stop},
    gate::Asking,
    message::{Content, ImageRef, Labels},
    store::{SessionFilter, SessionId, Store, StoreError},
    stored::Standing,
    turn::CallStatus,
};
use inspan_engine::{
    Command, Session, SessionError, Setup, SystemClock, Update, clock::Clock,
    session::log as log_of,
};
use inspan_pictures::{is_picture, media_type};
use uuid::Uuid;

use crate::{
    args::{DriveArgs, ResumeArgs, RunArgs},
    before::{Before, Seen},
    config::Config,
    exit::{Failure, code_of},
    home::{Home, session_of},
    input::text_or_input,
    interrupts::Interrupts,
    json,
    mentions::expand,
    out::{DIM, NOTE, Out, grouped, styled},
    person::Person,
    progress::{Progress, summary},
    setup::{Prepared, prepare},
    whole::WholeFile,
};

/// Sessions looked through for one that was interrupted.
const INTERRUPTED_LOOKED_AT_MAX: usize = 200;

/// Bytes of a picture of the command line.
const IMAGE_BYTES_MAX: u64 = 64 << 20;

/// Bytes that say whether it is one.
const IMAGE_HEAD_BYTES: u64 = 64;

/// `inspan run`.
pub(crate) async fn run(home: &Home, args: RunArgs) -> Result<u8, Failure> {
    let prompt = prompt_of(&args.prompt)?;
    let pictures = pictures(&args.image)?;
    let config = Config::load(&home.folder, home.environment.clone())?;
    let store = home.store().await?;
    let record = args.drive.record.as_deref().map(Record::begin).transpose()?;
    let out = Out::new(config.mask.clone());

    let before = match &args.session {
        Some(given) => {
            let id = session_of(&*store, given).await?;
            let before = Before::read(&*store, &id, &out).await?;
            Some((id, before))
        }
        None => None,
    };
    let state = before.as_ref().map(|(_, before)| &before.folded.state);
    let prepared = prepare(home, &config, store, &args.drive, state).await?;
    let Prepared { setup, notices, servers, inquiries } = prepared;
    let person = Person::new(inquiries);
    let mut turn = Turn { args: &args.drive, out: &out, setup: &setup, record, person };
    turn.tell(&notices);
    // What others wrote must not have servers read.
    let named = if args.prompt == "-" { &[][..] } else { &servers };
    let said = expand(home, (named, &setup), prompt, &mut turn.person, &out).await?;
    let said = with_pictures(pictures, said, &setup).await?;
    match before {
        Some((id, before)) => {
            let folded = before.folded.clone();
            let (session, ended) = Session::resume_after(setup.clone(), id, folded).await?;
            turn.drive(session, ended, before, Some(said)).await
        }
        None => {
            let id = new_id()?;
            let (session, ended) = Session::start(setup.clone(), id).await?;
            turn.drive(session, ended, Before::default(), Some(said)).await
        }
    }
}

/// `inspan resume`.
pub(crate) async fn resume(home: &Home, args: ResumeArgs) -> Result<u8, Failure> {
    let config = Config::load(&home.folder, home.environment.clone())?;
    let store = home.store().await?;
    let record = args.drive.record.as_deref().map(Record::begin).transpose()?;
    let out = Out::new(config.mask.clone());

    let candidates = match &args.id {
        Some(given) => vec![session_of(&*store, given).await?],
        None => interrupted(&*store).await?,
    };
    for id in candidates {
        let before = Before::read(&*store, &id, &out).await?;
        let state = &before.folded.state;
        if state.turn.is_none() && state.parked.is_none() {
            return nothing_open(&*store, &id, &before, &args.drive, record, &out).await;
        }
        let prepared = prepare(home, &config, store.clone(), &args.drive, Some(state)).await?;
        let Prepared { setup, notices, inquiries, .. } = prepared;
        match Session::resume_after(setup.clone(), id, before.folded.clone()).await {
            // It is not interrupted: somebody drives it right now.
            Err(SessionError::Store(StoreError::InUse(_))) if args.id.is_none() => {}
            resumed => {
                let person = Person::new(inquiries);
                let turn = Turn { args: &args.drive, out: &out, setup: &setup, record, person };
                turn.tell(&notices);
                let (session, ended) = resumed?;
                return turn.drive(session, ended, before, None).await;
            }
        }
    }
    Err(Failure::Usage(
        "no session was interrupted; `inspan sessions` lists them, and `inspan run --session ID \
         PROMPT` goes on with one"
            .to_owned(),
    ))
}

/// A picture of the command line: its bytes and its type.
type Picture = (Arc<[u8]>, &'static str);

/// The pictures in these files, told by their bytes and not by their names.
fn pictures(paths: &[PathBuf]) -> Result<Vec<Picture>, Failure> {
    let picture = |path: &PathBuf| {
        let wrong = |why: String| Failure::Usage(format!("--image {}: {why}", path.display()));
        let bytes = picture_bytes(path).map_err(|why| wrong(format!("can't be read: {why}")))?;
        let media_type = media_type(&bytes).map_err(|error| wrong(error.to_string()))?;
        Ok((bytes.into(), media_type))
    };
    paths.iter().map(picture).collect()
}

/// No more of a file is read than a picture can have, and of one that does not begin like a picture
/// only the beginning.
fn picture_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?.take(IMAGE_BYTES_MAX + 1);
    let mut bytes = Vec::new();
    (&mut file).take(IMAGE_HEAD_BYTES).read_to_end(&mut bytes)?;
    if is_picture(&bytes) {
        file.read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > IMAGE_BYTES_MAX {
        let why = format!("it has more than {} bytes", grouped(IMAGE_BYTES_MAX));
        return Err(std::io::Error::other(why));
    }
    Ok(bytes)
}

/// What is said, and where it comes from.
type Words = (Vec<Content>, Labels);

/// What is said with the pictures before it, which are durable when this returns.
async fn with_pictures(
    pictures: Vec<Picture>,
    (mut said, labels): Words,
    setup: &Setup,
) -> Result<Words, Failure> {
    let Some(blobs) = &setup.blobs else { return Ok((said, labels)) };
    for (at, (bytes, media_type)) in pictures.into_iter().enumerate() {
        let size_bytes = bytes.len() as u64;
        let hash = blobs.put(bytes).await?;
        let media_type = media_type.to_owned();
        said.insert(at, Content::Image(ImageRef { hash, media_type, size_bytes }));
    }
    Ok((said, labels))
}

/// `-` is standard input.
fn prompt_of(given: &str) -> Result<String, Failure> {
    let prompt = text_or_input(given, "the prompt")?;
    if prompt.trim().is_empty() {
        return Err(Failure::Usage("the prompt is empty: say something".to_owned()));
    }
    Ok(prompt)
}

/// An identifier that no session has.
pub(crate) fn new_id() -> Result<SessionId, Failure> {
    SessionId::try_from(Uuid::now_v7().to_string()).map_err(Failure::Usage)
}

/// A recording.
struct Record {
    path: PathBuf,
    file: WholeFile,
}

impl Record {
    /// Begins before the run, so that a place that can't be written is told at once.
    fn begin(path: &Path) -> Result<Self, Failure> {
        match WholeFile::begin(path) {
            Ok(file) => Ok(Self { path: path.to_owned(), file }),
            Err(why) => Err(Failure::Usage(format!(
                "the recording {} can't be written: {why}",
                path.display()
            ))),
        }
    }

    fn write(mut self, entries: &[Entry], out: &Out) -> Result<(), Failure> {
        let lines: String =
            entries.iter().map(|entry| out.masked(&entry.to_line()).into_owned() + "\n").collect();
        let written = self.file.write(lines.as_bytes()).and_then(|()| self.file.finish());
        written.map_err(|why| Failure::File {
            what: format!("the recording {}", self.path.display()),
            why,
        })
    }
}

/// The sessions that were interrupted, the last one first, and then those that wait.
async fn interrupted(store: &dyn Store) -> Result<Vec<SessionId>, Failure> {
    let mut found = Vec::new();
    for standings in [&[Standing::Open][..], &[Standing::Parked, Standing::Waiting]] {
        let mut rows = Vec::new();
        for standing in standings {
            let all = SessionFilter::all(INTERRUPTED_LOOKED_AT_MAX);
            rows.extend(store.sessions(&SessionFilter { standing: Some(*standing), ..all }).await?);
        }
        rows.sort_by_key(|row| Reverse(row.updated_ms));
        found.extend(rows.into_iter().map(|row| row.id));
    }
    Ok(found)
}

/// A session whose last turn ended: its answer stands, and so does its code.
async fn nothing_open(
    store: &dyn Store,
    id: &SessionId,
    before: &Before,
    args: &DriveArgs,
    record: Option<Record>,
    out: &Out,
) -> Result<u8, Failure> {
    let state = &before.folded.state;
    let Some(ended) = &state.ended else {
        return Err(Failure::Usage(format!(
            "session {id} has no turn yet: inspan run --session {id} PROMPT"
        )));
    };
    let mut seen = Seen::default();
    seen.take_turn(store, id, state, state.turns).await?;
    if let Some(record) = record {
        record.write(&log_of(store, id).await?, out)?;
    }
    let note = format!(
        "session {id} has no open turn: its last one ended with `{}`; \
         inspan run --session {id} PROMPT goes on",
        ended.stop.as_str()
    );
    out.progress(&format!("{}\n", styled(DIM, &note)));
    seen.give(id.as_str(), ended, &state.answer, args, out, false)
}

/// One turn, from the prompt to its stop.
struct Turn<'a> {
    args: &'a DriveArgs,
    out: &'a Out,
    setup: &'a Setup,
    record: Option<Record>,
    person: Person,
}

impl Turn<'_> {
    fn tell(&self, notices: &[String]) {
        for notice in notices {
            let notice = self.out.shown(notice);
            self.out.progress(&format!("  {} {notice}\n", styled(NOTE, "!")));
        }
    }

    async fn drive(
        mut self,
        session: Session,
        mut ended: inspan_engine::session::Ended,
        before: Before,
        prompt: Option<Words>,
    ) -> Result<u8, Failure> {
        let id = session.id().to_string();
        // The turn goes on where its answer can't be written: it is in the log.
        let written = match self.args.json {
            true => self.out.json(&json::session(&id)),
            false => Ok(()),
        };
        self.out.progress(&format!("{}\n", styled(DIM, &format!("session {id}"))));
        let followed = self.follow(&session, &mut ended, before, (prompt, written)).await;
        if let Some(record) = self.record.take() {
            let entries = log_of(&*self.setup.store, session.id()).await?;
            record.write(&entries, self.out)?;
        }
        let (code, last) = followed?;
        drop(session);
        // A prompt that came too late for its turn may have opened another: it is left to
        // `inspan resume`, as after any other end of this process.
        ended.abort();
        if !last.is_empty() {
            self.out.progress(&last);
        }
        Ok(code)
    }

    /// Follows the session until the turn has ended, and gives the exit code and the last line.
    async fn follow(
        &mut self,
        session: &Session,
        ended: &mut inspan_engine::session::Ended,
        before: Before,
        (prompt, mut written): (Option<Words>, Result<(), Failure>),
    ) -> Result<(u8, String), Failure> {
        let Before { folded, mut seen } = before;
        let mut state = folded.state;
        let mut updates = session.updates(state.head.seq);
        let mut interrupts = Interrupts::new()?;
        let (mut progress, mut deltas) = (Progress::default(), json::Deltas::default());
        progress.resumed(&state, SystemClock.now_ms(), self.out);
        let is_new_prompt = prompt.is_some();
        match prompt {
            Some((content, labels)) => {
                session.submit(Command::Prompt(content, labels)).await;
            }
            None if state.turn.is_none() => {
                session.submit(Command::Wake).await;
            }
            None => {}
        }
        let mut heard = !is_new_prompt;
        let asks_here = self.setup.asking == Asking::Now;
        if asks_here {
            questions(&state).for_each(|question| self.person.ask(question, self.out));
        }
        let mut is_cancelled = false;
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        loop {
            let update = tokio::select! {
                update = updates.next() => update?,
                is_by_hand = interrupts.next() => {
                    let is_last = is_cancelled || is_by_hand && interrupts.count > 1;
                    if is_last {
                        ended.abort();
                        return Ok((code_of(Stop::Cancelled, false), self.left(session)));
                    }
                    is_cancelled = !is_by_hand;
                    let cancel =
                        if is_by_hand { Command::CancelSafely } else { Command::Cancel };
                    session.submit(cancel).await;
                    continue;
                }
                answer = self.person.next(self.out) => {
                    session.submit(answer).await;
                    continue;
                }
                _ = seconds.tick() => {
                    progress.tick(SystemClock.now_ms(), self.out);
                    continue;
                }
            };
            match update {
                Some(Update::Entry(entry)) => {
                    state.apply(&entry);
                    seen.take(&entry);
                    if self.args.json {
                        let lines = deltas.rest() + &json::entry(&entry);
                        written = written.and(self.out.json(&lines));
                    }
                    progress.entry(&entry, &state, self.out);
                    match &entry.event {
                        Event::PermissionAsked(e) if asks_here => {
                            self.person.ask(e.clone(), self.out);
                        }
                        Event::PermissionAnswered(e) => self.person.closed(&e.call, self.out),
                        Event::ToolFinished(e) => self.person.closed(&e.call, self.out),
                        _ => {}
                    }
                    heard |= matches!(entry.event, Event::PromptSubmitted(_));
                    // A prompt that came too late for its turn has opened the next one.
                    let is_over = heard && state.turn.is_none();
                    if let (Event::TurnEnded(end), true) = (&entry.event, is_over) {
                        let on_terminal =
                            self.out.answer_is_terminal && progress.has_streamed(&state.answer);
                        let id = session.id().as_str();
                        let given =
                            seen.give(id, end, &state.answer, self.args, self.out, on_terminal);
                        let code = written.and(given)?;
                        let line =
                            summary(end.stop, progress.news(&end.detail), &seen.spending, self.out);
                        return Ok((code, self.last_lines(&state, session, end.stop, &line)));
                    }
                }
                Some(Update::Delta { part, delta }) if self.args.json => {
                    let lines = deltas.push(part, &delta, self.out);
                    written = written.and(self.out.json(&lines));
                }
                Some(Update::Delta { delta, .. }) => progress.delta(&delta, self.out),
                None => return Err(gone(ended).await),
            }
        }
    }

    fn last_lines(&self, state: &State, session: &Session, stop: Stop, summary: &str) -> String {
        let mut text = format!("{}\n", styled(DIM, summary));
        let id = session.id();
        let hint = match stop {
            Stop::End | Stop::Refusal => None,
            // A recording knows nothing of it, and a model would be another one.
            _ if self.args.replay.is_some() => None,
            Stop::Parked => Some(hint_of_wait(id.as_str(), state)),
            _ => Some(format!("inspan run --session {id} \"Go on.\"")),
        };
        if let Some(hint) = hint {
            text += &format!("{}\n", styled(DIM, &format!("to go on: {hint}")));
        }
        if self.args.replay.is_some() {
            text += &format!("{}\n", styled(DIM, REPLAYED));
        }
        text
    }

    fn left(&self, session: &Session) -> String {
        let text = format!("ended at once; to go on: inspan resume {}", session.id());
        format!("{}\n", styled(DIM, &text))
    }
}

/// What a person was asked before this run, and has not answered.
fn questions(state: &State) -> impl Iterator<Item = PermissionAsked> {
    state.calls.iter().filter_map(|open| match &open.status {
        CallStatus::Asked(why) => Some(PermissionAsked {
            call: open.call.id.clone(),
            name: open.name.clone(),
            why: why.clone(),
            arguments: open.arguments.clone().unwrap_or_default(),
            arguments_hash: open.arguments_hash(),
            choices: Vec::new(),
        }),
        _ => None,
    })
}

/// How to go on with a parked turn.
fn hint_of_wait(id: &str, state: &State) -> String {
    let waiting = state.calls.iter().find(|open| open.waits_outside());
    match waiting.map(|open| (&open.call.id, &open.status)) {
        Some((call, CallStatus::Asked(_))) => {
            format!("inspan answer {id} {call} allow|session|deny, then inspan resume {id}")
        }
        Some((call, _)) => format!("inspan deliver {id} {call} RESULT, then inspan resume {id}"),
        None => format!("inspan resume {id}"),
    }
}

/// Said after a run that was played from a recording.
const REPLAYED: &str = "\
This run was played from a recording. For a real model, leave out --replay and set
ANTHROPIC_API_KEY, or name another: --model openai://MODEL with OPENAI_API_KEY,
or --model ollama://MODEL for a model on this machine.";

/// Why the driver is gone.
async fn gone(ended: &mut inspan_engine::session::Ended) -> Failure {
    match ended.await {
        Ok(Err(error)) => error.into(),
        Ok(Ok(())) | Err(_) => Failure::Store(StoreError::Other {
            what: "the session's driver".to_owned(),
            why: "it ended before the turn did".to_owned(),
        }),
    }
}
