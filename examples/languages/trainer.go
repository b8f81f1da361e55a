// A whole training loop at a BOTS service, with Go 1.18 or later and its standard library. Only the model is made up.
//
//	BOTS_URL=http://127.0.0.1:8765 go run trainer.go 45 checkpoint.json
//
// Trains to step 45 and keeps where it stands in checkpoint.json. Stop it at any moment, even with kill -9, and start
// it again: it resumes from its checkpoint, and rewinds the service's belief to the same step. BOTS_API_KEY is sent
// if set.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/big"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	attempts = 10
	runPath  = "/datasets/levels/runs/default"
)

type task struct {
	ID                 string    `json:"id"`
	ReferencePassRates []float64 `json:"reference_pass_rates,omitempty"`
}

type pool struct {
	ReferenceModels []string `json:"reference_models"`
	Tasks           []task   `json:"tasks"`
}

type selectRequest struct {
	Dataset string `json:"dataset"`
	Run     string `json:"run"`
	Count   int    `json:"count"`
}

type selection struct {
	SelectionID string `json:"selection_id"`
	Tasks       []task `json:"tasks"`
}

type outcome struct {
	Task      string `json:"task"`
	Successes int    `json:"successes"`
	Trials    int    `json:"trials"`
}

type reportRequest struct {
	Dataset     string    `json:"dataset"`
	Run         string    `json:"run"`
	SelectionID string    `json:"selection_id"`
	Outcomes    []outcome `json:"outcomes"`
}

type receipt struct {
	Step      int `json:"step"`
	Reported  int `json:"reported"`
	Effective int `json:"effective"`
}

type run struct {
	Step   int `json:"step"`
	Totals struct {
		Rollouts float64 `json:"rollouts"`
	} `json:"totals"`
}

// checkpoint is what this trainer keeps; yours keeps the weights, too.
type checkpoint struct {
	Step int `json:"step"`
}

// service is where to call, and with which key ("" for none).
type service struct {
	url, apiKey string
	http        http.Client
}

// call puts the service's answer into `into`, and tries again while that can help. A write has the same
// Idempotency-Key each time, so it counts once although an answer was lost.
func (s *service) call(method, path string, body, into any) error {
	var content []byte
	if body != nil {
		written, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = written
	}
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		answer, wait, err := s.try(method, path, content, hex.EncodeToString(random))
		if err == nil {
			return json.Unmarshal(answer, into)
		}
		if wait < 0 || attempt == attempts {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		longest := 100 * time.Millisecond << attempt
		if longest > 5*time.Second {
			longest = 5 * time.Second
		}
		jitter, err := rand.Int(rand.Reader, big.NewInt(int64(longest)))
		if err != nil {
			return err
		}
		time.Sleep(wait + time.Duration(jitter.Int64()))
	}
}

// try makes one attempt. After a failure it says how long the service wants to be left alone; less than 0: for good.
func (s *service) try(method, path string, content []byte, key string) (answer []byte, wait time.Duration, err error) {
	request, err := http.NewRequest(method, s.url+path, bytes.NewReader(content))
	if err != nil {
		return nil, -1, err
	}
	if content != nil {
		request.Header.Set("Idempotency-Key", key)
		request.Header.Set("Content-Type", "application/json")
	}
	if s.apiKey != "" {
		request.Header.Set("Authorization", "Bearer "+s.apiKey)
	}
	response, err := s.http.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		return nil, 0, err
	}
	if response.StatusCode/100 == 2 {
		return answer, 0, nil
	}
	err = fmt.Errorf("%s %s", response.Status, answer)
	switch response.StatusCode {
	case 408, 429, 502, 503, 504:
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0 where there is none
		return nil, time.Duration(seconds) * time.Second, err
	}
	return nil, -1, err
}

// solved is how many of 16 rollouts solve a level, for a model that has come so far. Yours come from your trainer.
func solved(skill, level int) int {
	count := skill - level
	if count < 0 {
		return 0
	}
	if count > 16 {
		return 16
	}
	return count
}

// levels is the pool. What two reference models can do tells the service how the tasks hang together.
func levels() pool {
	made := pool{ReferenceModels: []string{"weak", "strong"}}
	for level := 0; level < 100; level++ {
		rates := []float64{float64(solved(20, level)) / 16, float64(solved(60, level)) / 16}
		made.Tasks = append(made.Tasks, task{fmt.Sprintf("level-%d", level), rates})
	}
	return made
}

// save keeps where training stands. It is renamed into place, so that it is whole or not there.
func save(file string, step int) error {
	content, err := json.Marshal(checkpoint{step})
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", content, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// start returns the step to resume from, with the service at the same step.
func (s *service) start(file string) (int, error) {
	var ignored any
	// The same pool again changes nothing.
	if err := s.call(http.MethodPut, "/datasets/levels", levels(), &ignored); err != nil {
		return 0, err
	}
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		// Refused if the run has learned something already: it is somebody else's.
		if err := s.call(http.MethodPut, runPath, map[string]int{"seed": 7}, &ignored); err != nil {
			return 0, err
		}
		return 0, save(file, 0)
	}
	if err != nil {
		return 0, err
	}
	var kept checkpoint
	if err := json.Unmarshal(content, &kept); err != nil {
		return 0, err
	}
	return kept.Step, s.call(http.MethodPost, runPath+"/rewind", kept, &ignored)
}

// train makes one step and returns its receipt.
func (s *service) train(step int) (done receipt, err error) {
	var chosen selection
	if err := s.call(http.MethodPost, "/select", selectRequest{"levels", "default", 8}, &chosen); err != nil {
		return done, err
	}
	report := reportRequest{Dataset: "levels", Run: "default", SelectionID: chosen.SelectionID}
	for _, each := range chosen.Tasks {
		level, err := strconv.Atoi(strings.TrimPrefix(each.ID, "level-"))
		if err != nil {
			return done, err
		}
		report.Outcomes = append(report.Outcomes, outcome{each.ID, solved(20+step, level), 16})
	}
	return done, s.call(http.MethodPost, "/report", report, &done)
}

func main() {
	log.SetFlags(0)
	url, steps, file := "http://127.0.0.1:8765", 45, "checkpoint.json"
	if set := os.Getenv("BOTS_URL"); set != "" {
		url = set
	}
	if len(os.Args) > 1 {
		if _, err := fmt.Sscan(os.Args[1], &steps); err != nil {
			log.Fatalf("steps: %v", err)
		}
	}
	if len(os.Args) > 2 {
		file = os.Args[2]
	}
	bots := &service{url: url, apiKey: os.Getenv("BOTS_API_KEY"), http: http.Client{Timeout: 10 * time.Second}}
	step, err := bots.start(file)
	for err == nil && step < steps {
		var done receipt
		if done, err = bots.train(step); err == nil {
			step = done.Step
			fmt.Printf("step %d: %d of %d tasks taught something\n", step, done.Effective, done.Reported)
			if step%5 == 0 {
				err = save(file, step)
			}
		}
	}
	var now run
	if err == nil {
		err = bots.call(http.MethodGet, runPath, nil, &now)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.0f rollouts in %d steps\n", now.Totals.Rollouts, now.Step)
}
